// A piece of the addends after the other, so that room and cache suffice.
#include <algorithm>
#include <variant>

#include "shardkit/checkpoint/rank_pieces.h"
#include "shardkit/distributed/reduce_addends_internal.h"

namespace shardkit::internal {

Result<Reduction> Reduction::make(const Sharding& sharding, DType dtype) {
  Reduction reduction;
  reduction.dtype_ = dtype;
  bool averages = false;
  for (std::size_t d = 0; d < sharding.placements.size(); ++d) {
    const auto* partial = std::get_if<Partial>(&sharding.placements[d]);
    if (!partial || sharding.mesh->shape()[d] == 1) continue;
    reduction.op_ = to_accumulation(partial->op);
    if (partial->op != ReduceOp::kAvg) continue;
    averages = true;
    reduction.divisor_ *= sharding.mesh->shape()[d];
  }
  // Sums and averages, which alone may stand together, add; the average then divides once.
  SHARDKIT_ASSIGN(reduction.accumulator_,
                  accumulator_dtype(averages ? Accumulation::kAvg : reduction.op_, dtype));
  if (averages) reduction.op_ = Accumulation::kSum;
  return reduction;
}

Status Reduction::run(ProcessGroup& group, std::span<const std::byte> addend,
                      std::span<std::byte> out, std::span<std::byte> room) const {
  const auto item = static_cast<std::size_t>(item_bytes(dtype_));
  const auto accumulator_item = static_cast<std::size_t>(item_bytes(accumulator_));
  const std::size_t step = room.size() / accumulator_item;
  for (std::size_t first = 0; first < addend.size() / item; first += step) {
    const std::size_t count = std::min(step, addend.size() / item - first);
    const std::span<std::byte> accumulator = room.first(count * accumulator_item);
    begin_accumulation(dtype_, addend.subspan(first * item, count * item), accumulator);
    SHARDKIT_TRY(group.all_reduce(op_, accumulator_, accumulator));
    if (out.empty()) continue;
    if (divisor_ > 1) divide_accumulator(dtype_, divisor_, accumulator);
    round_accumulator(dtype_, accumulator, out.subspan(first * item, count * item));
  }
  return {};
}

}  // namespace shardkit::internal
