// Plan: which tensors go where in which output file, proven before a byte is written.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/tensor/dtype.h"

namespace shardkit {

/// What happens to replicas: the copies of a tensor that other ranks hold.
enum class ReplicaPolicy {
  kCompare,  ///< byte for byte while streaming; a difference is an error
  kFirst,    ///< the copy of the lowest rank is taken, the others are not read
};

/// A write step: one tensor of the catalog, whole and row-major, to a place in an output file.
struct PlannedTensor {
  std::size_t tensor = 0;  ///< index into Catalog::tensors
  DType dtype = DType::kFloat32;
  std::uint64_t offset = 0;  ///< bytes from the start of the file

  friend bool operator==(const PlannedTensor&, const PlannedTensor&) = default;
};

/// An output file: its first bytes, then tensors without gaps.
struct PlannedFile {
  std::string name;
  std::string head;                    ///< the format's header
  std::vector<PlannedTensor> tensors;  ///< by offset
  std::uint64_t bytes = 0;
};

/// What a plan does, in numbers.
struct PlanSummary {
  std::uint64_t tensors = 0;
  std::uint64_t pieces = 0;             ///< source boxes that are read
  std::uint64_t compared_replicas = 0;  ///< copies of tensors that are read to be compared
  std::uint64_t casts = 0;              ///< tensors written in another dtype than stored
  std::uint64_t folds = 0;              ///< tensors into which an adapter is folded
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
};

/// A proven plan. Immutable.
class Plan {
 public:
  /// Proves that each planned tensor is held exactly once by each of its layers, that every piece
  /// lies in its storage, that casts and reductions are possible, and that heads and tensors tile
  /// every file.
  ///
  /// @error kIncomplete   coverage is not proven; the message names tensor and boxes
  /// @error kUnsupported  a cast or reduction that does not exist
  /// @error kInternal     files whose parts do not tile them: the caller's mistake
  static Result<Plan> make(std::shared_ptr<const Catalog> catalog, std::vector<PlannedFile> files,
                           ReplicaPolicy replicas);

  const Catalog& catalog() const { return *catalog_; }
  const std::vector<PlannedFile>& files() const { return files_; }
  ReplicaPolicy replicas() const { return replicas_; }
  const PlanSummary& summary() const { return summary_; }

 private:
  Plan() = default;

  /// Counts what reading a tensor takes.
  void count_reads(const CatalogTensor& tensor);

  std::shared_ptr<const Catalog> catalog_;
  std::vector<PlannedFile> files_;
  ReplicaPolicy replicas_ = ReplicaPolicy::kCompare;
  PlanSummary summary_;
};

/// Proves that a tensor is whole: each of its layers covers it exactly once, and every piece
/// lies in its storage; so do the parts of its fold, which fit it.
/// @error kIncomplete, naming tensor, rank and boxes; as fold_shape
Status prove_whole(const CatalogTensor& tensor);

}  // namespace shardkit
