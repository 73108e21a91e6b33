// Reduction: what ranks hold as addends, reduced to the tensor that they stand for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"
#include "shardkit/layout/sharding.h"
#include "shardkit/tensor/accumulate.h"

namespace shardkit::internal {

/// The reduction over all Partial dimensions of a mesh at once.
class Reduction {
 public:
  /// What run() needs to work in.
  static constexpr std::int64_t kRoomBytes = std::int64_t{4} << 20;

  /// @param sharding  REQUIRES: check_sharding(sharding).ok(), and a Partial placement
  /// @error as accumulator_dtype()
  static Result<Reduction> make(const Sharding& sharding, DType dtype);

  /// Collective over the ranks that share all coordinates but those of Partial dimensions. Addends
  /// are taken in their order, in the accumulator's type, and rounded once.
  ///
  /// @param addend  whole elements, as many on all ranks
  /// @param out     as large; empty on a rank that does not want the result
  /// @param room    kRoomBytes
  /// @error as ProcessGroup
  Status run(ProcessGroup& group, std::span<const std::byte> addend, std::span<std::byte> out,
             std::span<std::byte> room) const;

 private:
  Reduction() = default;

  DType dtype_ = DType::kFloat32;
  DType accumulator_ = DType::kFloat32;
  Accumulation op_ = Accumulation::kSum;
  std::int64_t divisor_ = 1;
};

}  // namespace shardkit::internal
