// Reads shardings from stdin and writes, for each rank, which elements its local tensor holds.
//
// A line is a case, all numbers but the placements' letters:
//   mesh:        dimensions, sizes..., ranks (row-major)...
//   placements:  one a mesh dimension: S dim | T dim split_factor | R | P
//   tensor:      dimensions, global shape...
//   shard order: entries, and for each: tensor dim, mesh dims, the mesh dims in order...
//   cut order:   0 spec | 1 physical | 2 decide, followed by each rank's local shape
// Output, int64 in host order: for each rank in mesh order its local dimensions and shape, then the
// row-major global index of each local element. Dimensions -1: the cut order cannot be decided.
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "shardkit/base/checked_math.h"
#include "shardkit/layout/box.h"
#include "shardkit/layout/sharding.h"

namespace {

using shardkit::BoxPair;
using shardkit::CutOrder;
using shardkit::DeviceMesh;
using shardkit::Dims;
using shardkit::Sharding;

std::int64_t read_number(std::istream& in) {
  std::int64_t number = 0;
  if (!(in >> number)) throw std::runtime_error("a case ends early");
  return number;
}

Dims read_dims(std::istream& in, std::size_t count) {
  Dims dims(count, 0);
  for (std::int64_t& value : dims) value = read_number(in);
  return dims;
}

shardkit::Placement read_placement(std::istream& in) {
  char letter = 0;
  in >> letter;
  if (letter == 'S') return shardkit::Shard{read_number(in)};
  if (letter == 'T') {
    const std::int64_t dim = read_number(in);
    return shardkit::StridedShard{dim, read_number(in)};
  }
  if (letter == 'P') return shardkit::Partial{shardkit::ReduceOp::kMax};
  if (letter == 'R') return shardkit::Replicate{};
  throw std::runtime_error("a placement is none of S, T, R, P");
}

Sharding read_sharding(std::istream& in) {
  const Dims mesh_shape = read_dims(in, static_cast<std::size_t>(read_number(in)));
  std::vector<std::int64_t> ranks(
      static_cast<std::size_t>(shardkit::element_count(mesh_shape).value()));
  for (std::int64_t& rank : ranks) rank = read_number(in);
  Sharding sharding;
  sharding.mesh = std::make_shared<const DeviceMesh>(
      DeviceMesh::make("cpu", mesh_shape, std::move(ranks)).value());
  for (std::size_t m = 0; m < mesh_shape.size(); ++m)
    sharding.placements.push_back(read_placement(in));
  sharding.shape = read_dims(in, static_cast<std::size_t>(read_number(in)));
  for (std::int64_t entries = read_number(in); entries > 0; --entries) {
    shardkit::ShardOrder& entry = sharding.shard_order.emplace_back();
    entry.tensor_dim = read_number(in);
    for (std::int64_t count = read_number(in); count > 0; --count)
      entry.mesh_dims.push_back(read_number(in));
  }
  check_sharding(sharding).value();
  return sharding;
}

std::optional<CutOrder> read_cut_order(std::istream& in, const Sharding& sharding) {
  const std::int64_t order = read_number(in);
  if (order == 0) return CutOrder::kSpec;
  if (order == 1) return CutOrder::kPhysical;
  std::vector<shardkit::LocalShape> known;
  for (const std::int64_t rank : sharding.mesh->ranks())
    known.push_back({*sharding.mesh->coordinate_of(rank), read_dims(in, sharding.shape.size())});
  const auto decided = decide_cut_order(sharding, known);
  if (!decided.ok()) return std::nullopt;
  return *decided;
}

std::int64_t flat_index(const Dims& offset, const Dims& index, const Dims& strides) {
  std::int64_t flat = 0;
  for (std::size_t d = 0; d < strides.size(); ++d) flat += (offset[d] + index[d]) * strides[d];
  return flat;
}

// The local tensor as it would be filled box by box; -1 where no box writes.
std::vector<std::int64_t> fill(const Dims& local, const Sharding& sharding,
                               const std::vector<BoxPair>& boxes) {
  const Dims local_strides = shardkit::contiguous_strides(local);
  const Dims global_strides = shardkit::contiguous_strides(sharding.shape);
  std::vector<std::int64_t> values(static_cast<std::size_t>(shardkit::element_count(local).value()),
                                   -1);
  for (const BoxPair& pair : boxes) {
    const std::int64_t count = shardkit::element_count(pair.global.shape).value();
    for (std::int64_t i = 0; i < count; ++i) {
      Dims index(local.size(), 0);
      std::int64_t rest = i;
      for (std::size_t d = local.size(); d-- > 0;) {
        index[d] = rest % pair.global.shape[d];
        rest /= pair.global.shape[d];
      }
      values[static_cast<std::size_t>(flat_index(pair.local_offset, index, local_strides))] =
          flat_index(pair.global.offset, index, global_strides);
    }
  }
  return values;
}

void write(std::span<const std::int64_t> numbers) {
  std::fwrite(numbers.data(), sizeof(std::int64_t), numbers.size(), stdout);
}

void answer(std::istream& in) {
  const Sharding sharding = read_sharding(in);
  const std::optional<CutOrder> order = read_cut_order(in, sharding);
  for (const std::int64_t rank : sharding.mesh->ranks()) {
    if (!order) {
      write(std::vector<std::int64_t>{-1});
      continue;
    }
    const Dims coordinate = *sharding.mesh->coordinate_of(rank);
    const Dims local = local_shape(sharding, coordinate, *order);
    write(std::vector<std::int64_t>{static_cast<std::int64_t>(local.size())});
    write({local.data(), local.size()});
    write(fill(local, sharding,
               shardkit::cut_into_boxes(local_intervals(sharding, coordinate, *order))));
  }
}

}  // namespace

int main() {
  try {
    std::string line;
    while (std::getline(std::cin, line)) {
      std::istringstream in(line);
      answer(in);
    }
  } catch (const std::exception& error) {
    std::cerr << "box_rule: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
