// The proof, the call, and the copies out of what could not be received in place.
#include <algorithm>
#include <utility>

#include "shardkit/base/checked_math.h"
#include "shardkit/distributed/box_run_internal.h"
#include "shardkit/distributed/gather_boxes_internal.h"
#include "shardkit/layout/tiling.h"
#include "shardkit/tensor/strided_copy.h"
#include "shardkit/transfer/element_range.h"

namespace shardkit::internal {
Result<BoxGather> BoxGather::make(DType dtype, Dims shape, std::vector<HeldParts> parts,
                                  std::vector<bool> targets) {
  std::vector<Box> boxes;
  for (const HeldParts& of_rank : parts)
    for (const HeldPart& part : of_rank)
      for (const BoxPair& pair : part.boxes) boxes.push_back(pair.global);
  SHARDKIT_TRY(check_tiling(shape, std::move(boxes)));
  BoxGather gather;
  gather.dtype_ = dtype;
  gather.shape_ = std::move(shape);
  gather.parts_ = std::move(parts);
  gather.targets_ = std::move(targets);
  return gather;
}

bool BoxGather::is_wanted() const {
  return std::find(targets_.begin(), targets_.end(), true) != targets_.end();
}

std::int64_t BoxGather::sent_bytes(std::size_t rank) const {
  std::int64_t elements = 0;
  for (const HeldPart& part : parts_[rank]) elements += *element_count(part.shape);
  return elements * item_bytes(dtype_);
}

std::int64_t BoxGather::room_bytes(std::size_t rank) const {
  std::int64_t bytes = 0;
  if (targets_[rank])
    for (std::size_t other = 0; other < parts_.size(); ++other)
      if (other != rank && !run_of(other)) bytes += sent_bytes(other);
  return bytes;
}

std::optional<std::int64_t> BoxGather::run_of(std::size_t rank) const {
  const HeldPart* only = nullptr;
  for (const HeldPart& part : parts_[rank]) {
    if (part.boxes.empty()) continue;
    if (only || part.boxes.size() > 1) return std::nullopt;
    only = &part;
  }
  if (!only) return 0;
  const Box& box = only->boxes.front().global;
  const auto first = internal::run_of(shape_, box);
  if (!first) return std::nullopt;
  return *first * item_bytes(dtype_);
}

Status BoxGather::run(ProcessGroup& group, std::span<std::byte> mine, std::span<std::byte> whole,
                      std::span<std::byte> room) const {
  const auto rank = static_cast<std::size_t>(group.rank());
  const std::size_t size = parts_.size();
  std::vector<std::span<std::byte>> received(size);
  std::size_t used = 0;
  for (std::size_t other = 0; other < size; ++other) {
    const auto bytes = static_cast<std::size_t>(sent_bytes(other));
    if (const auto run = run_of(other); targets_[rank] && run) {
      received[other] = whole.subspan(static_cast<std::size_t>(*run), bytes);
    } else if (other == rank) {
      received[other] = mine;  // in place: nothing moves
    } else if (targets_[rank]) {
      received[other] = room.subspan(used, bytes);
      used += bytes;
    }
  }
  if (std::find(targets_.begin(), targets_.end(), false) == targets_.end()) {
    SHARDKIT_TRY(group.all_gather(mine, received));
  } else {
    std::vector<std::span<const std::byte>> sent(size);
    for (std::size_t other = 0; other < size; ++other)
      if (targets_[other]) sent[other] = mine;
    if (!targets_[rank]) received[rank] = {};
    SHARDKIT_TRY(group.all_to_all(sent, received));
  }
  if (!targets_[rank]) return {};
  for (std::size_t other = 0; other < size; ++other)
    if (!run_of(other)) place(other, received[other].data(), whole.data());
  return {};
}

void BoxGather::place(std::size_t rank, const std::byte* sent, std::byte* whole) const {
  const std::int64_t item = item_bytes(dtype_);
  const Dims strides = contiguous_strides(shape_);
  for (const HeldPart& part : parts_[rank]) {
    const Dims part_strides = contiguous_strides(part.shape);
    for (const BoxPair& pair : part.boxes) {
      const std::byte* from = sent + position_of(pair.local_offset, part_strides) * item;
      std::byte* to = whole + position_of(pair.global.offset, strides) * item;
      if (from != to) strided_copy(item, pair.global.shape, from, part_strides, to, strides);
    }
    sent += *element_count(part.shape) * item;
  }
}

}  // namespace shardkit::internal
