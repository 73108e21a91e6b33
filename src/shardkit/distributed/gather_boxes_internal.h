// BoxGather: the parts of a tensor that the ranks of a group hold, brought together in one place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"
#include "shardkit/layout/box.h"
#include "shardkit/tensor/tensor.h"

namespace shardkit::internal {

/// A dense tensor in a rank's memory, and which boxes of the whole it holds.
struct HeldPart {
  Dims shape;
  std::vector<BoxPair> boxes;
};

/// What a rank holds of the whole: it sends its parts one behind the other.
using HeldParts = std::vector<HeldPart>;

/// One tensor to be gathered. Pure arithmetic until run().
class BoxGather {
 public:
  /// @param dtype, shape  of the whole
  /// @param parts    by rank of the group; the same on all ranks
  /// @param targets  by rank of the group: which ranks want the whole; the same on all ranks
  /// @error kIncomplete the parts do not cover the whole exactly once
  static Result<BoxGather> make(DType dtype, Dims shape, std::vector<HeldParts> parts,
                                std::vector<bool> targets);

  /// Whether any rank of the group wants the whole; else nobody need call run().
  bool is_wanted() const;
  /// Bytes that `rank` sends.
  std::int64_t sent_bytes(std::size_t rank) const;
  /// Bytes of room that run() needs on `rank`: what cannot be received right where it belongs.
  std::int64_t room_bytes(std::size_t rank) const;
  /// Where in the whole, in bytes, the part of `rank` lies as one run; nothing if it does not.
  std::optional<std::int64_t> run_of(std::size_t rank) const;

  /// Collective over the group.
  ///
  /// @param mine   this rank's parts, dense, one behind the other
  /// @param whole  contiguous, of the whole's bytes, on targets; else empty. `mine` may lie in it,
  ///               where run_of() this rank says
  /// @param room   at least room_bytes()
  /// @error as ProcessGroup
  Status run(ProcessGroup& group, std::span<std::byte> mine, std::span<std::byte> whole,
             std::span<std::byte> room) const;

 private:
  BoxGather() = default;
  void place(std::size_t rank, const std::byte* sent, std::byte* whole) const;

  DType dtype_ = DType::kFloat32;
  Dims shape_;
  std::vector<HeldParts> parts_;
  std::vector<bool> targets_;
};

}  // namespace shardkit::internal
