// Cut: chunk arithmetic on interval lists; never one entry for each index.
#include "shardkit/layout/cut.h"

#include <algorithm>

namespace shardkit {
namespace {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }

// A list of intervals seen as the sequence of their indices, read in slices from front to back.
class Reader {
 public:
  explicit Reader(const Intervals& list) : list_(list) {}

  // Appends the indices at positions begin <= p < end to `out`, joining what touches.
  // REQUIRES: begin not before the last slice's end; end <= the sequence's length.
  void append_slice(std::int64_t begin, std::int64_t end, Intervals& out) {
    while (begin < end) {
      while (begin - position_ >= list_[at_].size()) position_ += list_[at_++].size();
      const Interval& source = list_[at_];
      const std::int64_t skip = begin - position_;
      const std::int64_t count = std::min(end - begin, source.size() - skip);
      const Interval slice{source.begin + skip, source.begin + skip + count};
      if (!out.empty() && out.back().end == slice.begin)
        out.back().end = slice.end;
      else
        out.push_back(slice);
      begin += count;
    }
  }

 private:
  const Intervals& list_;
  std::size_t at_ = 0;         // the interval being read
  std::int64_t position_ = 0;  // of its first index in the sequence
};

Intervals apply(const Intervals& list, std::int64_t length, const Cut& cut, std::int64_t index) {
  Intervals kept;
  Reader reader(list);
  const std::int64_t group = ceil_div(length, cut.groups);
  for (std::int64_t begin = 0; begin < length;) {
    const std::int64_t group_size = std::min(group, length - begin);
    const Interval piece = chunk(group_size, cut.pieces, index);
    reader.append_slice(begin + piece.begin, begin + piece.end, kept);
    begin += group_size;
  }
  return kept;
}

}  // namespace

Interval chunk(std::int64_t length, std::int64_t pieces, std::int64_t index) {
  const std::int64_t full = ceil_div(length, pieces);
  // full * index may overflow where it lies behind the end.
  const auto boundary = [&](std::int64_t i) {
    return full == 0 || i > length / full ? length : full * i;
  };
  return {boundary(index), boundary(index + 1)};
}

Cuts cuts_of(const Sharding& sharding, std::size_t tensor_dim, CutOrder order) {
  const auto dim = static_cast<std::int64_t>(tensor_dim);
  Cuts cuts;
  const auto add = [&](std::size_t mesh_dim) {
    const Placement& placement = sharding.placements[mesh_dim];
    const std::int64_t pieces = sharding.mesh->shape()[mesh_dim];
    if (sharded_dim(placement) != dim || pieces == 1) return;
    const auto* strided = std::get_if<StridedShard>(&placement);
    cuts.push_back({mesh_dim, pieces, strided ? strided->split_factor : 1});
  };
  const auto stored =
      std::find_if(sharding.shard_order.begin(), sharding.shard_order.end(),
                   [&](const ShardOrder& entry) { return entry.tensor_dim == dim; });
  if (stored != sharding.shard_order.end()) {
    for (const std::int64_t mesh_dim : stored->mesh_dims) add(static_cast<std::size_t>(mesh_dim));
  } else {
    for (std::size_t m = 0; m < sharding.placements.size(); ++m) add(m);
  }
  if (order == CutOrder::kPhysical) {
    std::stable_partition(cuts.begin(), cuts.end(), [](const Cut& cut) { return cut.groups == 1; });
    for (Cut& cut : cuts) cut.groups = 1;
  }
  return cuts;
}

std::int64_t size_after(std::int64_t length, const Cuts& cuts, const Dims& coordinate) {
  for (const Cut& cut : cuts) {
    if (length == 0) return 0;
    const std::int64_t index = coordinate[cut.mesh_dim];
    const std::int64_t group = ceil_div(length, cut.groups);
    const std::int64_t full_groups = length / group;
    length = full_groups * chunk(group, cut.pieces, index).size() +
             chunk(length % group, cut.pieces, index).size();
  }
  return length;
}

Intervals intervals_after(std::int64_t length, const Cuts& cuts, const Dims& coordinate) {
  Intervals list;
  if (length > 0) list.push_back({0, length});
  for (const Cut& cut : cuts) {
    if (cut.groups == 1 && list.size() == 1) {  // the common case, in place
      const Interval kept = chunk(list[0].size(), cut.pieces, coordinate[cut.mesh_dim]);
      list[0] = {list[0].begin + kept.begin, list[0].begin + kept.end};
      if (list[0].size() == 0) list.clear();
    } else {
      list = apply(list, size(list), cut, coordinate[cut.mesh_dim]);
    }
  }
  return list;
}

}  // namespace shardkit
