// reduce_in_rank_order: a few thousand elements at a time, of all ranks.
#include <algorithm>
#include <array>
#include <cstdint>

#include "shardkit/collective/rank_order_reduction_internal.h"

namespace shardkit {
namespace {

// The accumulator stays in the nearest cache.
constexpr std::size_t kElements = 2048;
constexpr std::size_t kWidestAccumulator = 8;  // bytes

}  // namespace

void reduce_in_rank_order(Accumulation op, DType dtype,
                          std::span<const std::span<const std::byte>> addends,
                          std::span<std::byte> out) {
  const auto item = static_cast<std::size_t>(item_bytes(dtype));
  const auto wide_item = static_cast<std::size_t>(item_bytes(*accumulator_dtype(op, dtype)));
  alignas(64) std::array<std::byte, kElements * kWidestAccumulator> memory;
  for (std::size_t begin = 0; begin < out.size(); begin += kElements * item) {
    const std::size_t bytes = std::min(kElements * item, out.size() - begin);
    const std::span<std::byte> sum(memory.data(), bytes / item * wide_item);
    begin_accumulation(dtype, addends[0].subspan(begin, bytes), sum);
    for (const auto& addend : addends.subspan(1))
      accumulate(op, dtype, addend.subspan(begin, bytes), sum);
    if (op == Accumulation::kAvg)
      divide_accumulator(dtype, static_cast<std::int64_t>(addends.size()), sum);
    round_accumulator(dtype, sum, out.subspan(begin, bytes));
  }
}

}  // namespace shardkit
