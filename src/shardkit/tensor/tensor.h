// Tensor: a strided view of a Storage.
#pragma once

#include <cstdint>
#include <memory>

#include "shardkit/base/dims.h"
#include "shardkit/base/result.h"
#include "shardkit/tensor/dtype.h"
#include "shardkit/tensor/storage.h"

namespace shardkit {

/// A view: element (i0, i1, ...) lies at element offset + sum(i_d * strides[d]) of the storage.
/// Copies share the storage. Strides are >= 0 (PyTorch has no negative ones); 0 repeats elements.
struct Tensor {
  DType dtype = DType::kFloat32;
  Dims shape;
  Dims strides;             ///< elements, one for each dimension of shape
  std::int64_t offset = 0;  ///< elements from the start of the storage
  std::shared_ptr<const Storage> storage;

  /// Elements, as shape says. REQUIRES: check_view(*this).ok().
  std::int64_t numel() const;
  /// numel() times the element's size; what a dense copy takes.
  std::int64_t bytes() const;
};

/// Checks that a view may be believed: sizes and strides not negative, as many strides as
/// dimensions, and every element inside the storage.
///
/// @error kCorrupt the view leaves its storage, or a number is negative or overflows
Status check_view(const Tensor& tensor);

/// Whether the elements lie one after another in row-major order. Strides of dimensions of size 1
/// do not matter, as in PyTorch's is_contiguous().
bool is_contiguous(const Tensor& tensor);

}  // namespace shardkit
