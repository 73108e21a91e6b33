// strided_copy: loops sorted by the destination, merged where they run on, tiled where they cross.
#include "shardkit/tensor/strided_copy.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <span>

namespace shardkit {
namespace {

// One dimension; steps in bytes.
struct Loop {
  std::int64_t size = 1;
  std::int64_t src_step = 0;
  std::int64_t dst_step = 0;
};

using Loops = std::span<const Loop>;

// Sorts the dimensions so that the destination is written front to back, and merges neighbours that
// lie one behind the other in both views. Returns how many are left; none where nothing is left.
std::size_t arrange(std::int64_t item, const Dims& shape, const Dims& src_strides,
                    const Dims& dst_strides, std::array<Loop, Dims::kMaxDims>& loops) {
  std::size_t count = 0;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) loops[count++] = {shape[d], src_strides[d] * item, dst_strides[d] * item};
  // No two steps are equal, or indices would share a place; std::stable_sort() takes memory.
  std::sort(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(count),
            [](const Loop& a, const Loop& b) { return a.dst_step > b.dst_step; });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Loop& inner = loops[i];
    if (kept > 0 && loops[kept - 1].src_step == inner.size * inner.src_step &&
        loops[kept - 1].dst_step == inner.size * inner.dst_step)
      loops[kept - 1] = {loops[kept - 1].size * inner.size, inner.src_step, inner.dst_step};
    else
      loops[kept++] = inner;
  }
  return kept;
}

// Calls body(src, dst) at every index of the loops, the last one fastest.
template <class Body>
void walk(Loops loops, const std::byte* src, std::byte* dst, const Body& body) {
  std::array<std::int64_t, Dims::kMaxDims> index{};
  while (true) {
    body(src, dst);
    std::size_t d = loops.size();
    while (d > 0) {
      const Loop& loop = loops[--d];
      src += loop.src_step;
      dst += loop.dst_step;
      if (++index[d] < loop.size) break;
      index[d] = 0;
      src -= loop.size * loop.src_step;
      dst -= loop.size * loop.dst_step;
      if (d == 0) return;
    }
    if (loops.empty()) return;
  }
}

template <std::size_t kItem>
void copy_row(const Loop& row, const std::byte* src, std::byte* dst) {
  for (std::int64_t i = 0; i < row.size; ++i)
    std::memcpy(dst + i * row.dst_step, src + i * row.src_step, kItem);
}

// Two dimensions, `slow` the faster one in the source and `fast` in the destination. Tiles keep the
// lines of both sides cached until they are used up; wider ones (measured: 32, 64) lose where the
// lines lie a power of two apart and push each other out.
template <std::size_t kItem>
void copy_crossed(const Loop& slow, const Loop& fast, const std::byte* src, std::byte* dst) {
  constexpr std::int64_t kTile = 16;
  for (std::int64_t i = 0; i < slow.size; i += kTile) {
    const std::int64_t rows = std::min(kTile, slow.size - i);
    for (std::int64_t j = 0; j < fast.size; j += kTile) {
      const Loop row{std::min(kTile, fast.size - j), fast.src_step, fast.dst_step};
      for (std::int64_t r = i; r < i + rows; ++r)
        copy_row<kItem>(row, src + r * slow.src_step + j * fast.src_step,
                        dst + r * slow.dst_step + j * fast.dst_step);
    }
  }
}

template <std::size_t kItem>
void copy_items(std::span<Loop> loops, const std::byte* src, std::byte* dst) {
  if (loops.empty()) {
    std::memcpy(dst, src, kItem);
    return;
  }
  // The dimension whose steps in the source are the shortest, repeats aside.
  std::size_t nearest = loops.size() - 1;
  for (std::size_t d = 0; d + 1 < loops.size(); ++d)
    if (loops[d].src_step > 0 && loops[d].src_step < loops[nearest].src_step) nearest = d;
  const Loop fast = loops.back();
  if (nearest == loops.size() - 1) {
    walk(loops.first(loops.size() - 1), src, dst,
         [&](const std::byte* from, std::byte* to) { copy_row<kItem>(fast, from, to); });
    return;
  }
  std::rotate(loops.begin() + static_cast<std::ptrdiff_t>(nearest),
              loops.begin() + static_cast<std::ptrdiff_t>(nearest) + 1, loops.end() - 1);
  const Loop slow = loops[loops.size() - 2];
  walk(loops.first(loops.size() - 2), src, dst,
       [&](const std::byte* from, std::byte* to) { copy_crossed<kItem>(slow, fast, from, to); });
}

}  // namespace

void strided_copy(std::int64_t item_bytes, const Dims& shape, const std::byte* src,
                  const Dims& src_strides, std::byte* dst, const Dims& dst_strides) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  std::array<Loop, Dims::kMaxDims> all;
  const std::size_t count = arrange(item_bytes, shape, src_strides, dst_strides, all);
  const std::span<Loop> loops(all.data(), count);
  if (count > 0 && loops.back().src_step == item_bytes && loops.back().dst_step == item_bytes) {
    const auto run = static_cast<std::size_t>(loops.back().size * item_bytes);
    walk(loops.first(count - 1), src, dst,
         [run](const std::byte* from, std::byte* to) { std::memcpy(to, from, run); });
    return;
  }
  switch (item_bytes) {
    case 1: return copy_items<1>(loops, src, dst);
    case 2: return copy_items<2>(loops, src, dst);
    case 4: return copy_items<4>(loops, src, dst);
    case 8: return copy_items<8>(loops, src, dst);
    case 16: return copy_items<16>(loops, src, dst);
    default: assert(false && "no element has this size");
  }
}

}  // namespace shardkit
