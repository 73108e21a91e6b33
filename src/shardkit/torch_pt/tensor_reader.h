// TensorReader: plain tensors, as torch's _rebuild_* functions would make them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/tensor/tensor.h"
#include "shardkit/torch_pt/objects.h"
#include "shardkit/torch_pt/records.h"

namespace shardkit {

/// Makes Tensors whose storages are ranges of the file. Every view is checked against its storage.
class TensorReader {
 public:
  TensorReader(PtObjects& objects, PtRecords& records) : objects_(objects), records_(records) {}

  /// Whether rebuild() takes calls of this role.
  static bool is_rebuild(GlobalRole role);

  /// What a _rebuild_tensor* or _rebuild_meta_tensor_no_storage call makes (torch/_utils.py).
  ///
  /// @param at  the call, for error messages
  /// @error kCorrupt arguments that do not fit, or a view that leaves its storage;
  ///        kUnsupported a quantized type, or a lazily conjugated or negated tensor
  Result<Tensor> rebuild(const PtCall& call, ObjectId at);

  /// A storage that stands for itself: all of it, as a one-dimensional tensor.
  Result<Tensor> bare_storage(ObjectId persistent_id);

  /// The numbers of a small integer tensor, row-major; reads its storage.
  Result<std::vector<std::int64_t>> read_integers(const Tensor& tensor, ObjectId at) const;

 private:
  struct TypedStorage {
    std::shared_ptr<const Storage> storage;
    DType dtype = DType::kUInt8;  ///< of an untyped storage: uint8, as torch.load has it
    std::int64_t count = 0;
  };

  Result<TypedStorage> storage_of(ObjectId persistent_id);
  Status check_metadata(ObjectId metadata) const;

  PtObjects& objects_;
  PtRecords& records_;
};

}  // namespace shardkit
