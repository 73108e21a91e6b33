// Whole tensors, local states to fill from them, and what must be in them, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shardkit/base/checked_math.h"
#include "shardkit/checkpoint/rank_order.h"
#include "shardkit/collective/thread_group.h"
#include "shardkit/layout/sharding.h"
#include "shardkit/state/memory.h"
#include "shardkit/state/value.h"
#include "shardkit/testing/ranks.h"
#include "shardkit/testing/tensors.h"
#include "shardkit/transfer/element_range.h"

namespace shardkit::testing {

/// Calls a function for every index of a shape, in row-major order.
inline void for_each_index(const Dims& shape, const std::function<void(const Dims&)>& fn) {
  const std::int64_t elements = *element_count(shape);
  Dims index(shape.size(), 0);
  for (std::int64_t i = 0; i < elements; ++i) {
    fn(index);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

/// The bytes of one element.
inline std::string element_at(const Tensor& tensor, const Dims& index) {
  const std::int64_t element = tensor.offset + position_of(index, tensor.strides);
  const std::int64_t item = item_bytes(tensor.dtype);
  const auto* data = reinterpret_cast<const char*>(tensor.storage->memory()->data);
  return std::string(data + element * item, static_cast<std::size_t>(item));
}

/// All elements of a tensor in memory, element by element.
inline std::string dense_bytes(const Tensor& tensor) {
  std::string bytes;
  for_each_index(tensor.shape, [&](const Dims& index) { bytes += element_at(tensor, index); });
  return bytes;
}

/// What a coordinate keeps of a whole tensor, element by element.
inline std::string part_bytes(const Tensor& whole, const Sharding& sharding, const Dims& coordinate,
                              CutOrder order = CutOrder::kSpec) {
  std::vector<std::vector<std::int64_t>> rows;
  Dims shape(whole.shape.size(), 0);
  for (const Intervals& intervals : local_intervals(sharding, coordinate, order)) {
    std::vector<std::int64_t> kept;
    for (const Interval& each : intervals)
      for (std::int64_t i = each.begin; i < each.end; ++i) kept.push_back(i);
    shape[rows.size()] = static_cast<std::int64_t>(kept.size());
    rows.push_back(std::move(kept));
  }
  std::string bytes;
  for_each_index(shape, [&](const Dims& index) {
    Dims global(index.size(), 0);
    for (std::size_t d = 0; d < index.size(); ++d)
      global[d] = rows[d][static_cast<std::size_t>(index[d])];
    bytes += element_at(whole, global);
  });
  return bytes;
}

/// The coordinate by which a rank keeps its part, if the local shapes are those of empty_dtensor():
/// its position in the process groups, as PyTorch's full_tensor() gathers, unless the local shapes
/// of some rank would be other ones there.
inline Dims kept_coordinate(const Sharding& sharding, std::int64_t rank) {
  const auto by_groups = [&](std::int64_t member) {
    return shard_coordinate(sharding, member, RankOrder::kProcessGroup);
  };
  std::vector<Dims> taken;
  for (const std::int64_t member : sharding.mesh->ranks()) {
    const Dims coordinate = *sharding.mesh->coordinate_of(member);
    const Dims position = by_groups(member);
    // In some meshes two ranks have the same position.
    if (std::find(taken.begin(), taken.end(), position) != taken.end() ||
        local_shape(sharding, position) != local_shape(sharding, coordinate))
      return *sharding.mesh->coordinate_of(rank);
    taken.push_back(position);
  }
  return by_groups(rank);
}

/// A tensor in which no two elements near each other are equal.
inline Tensor numbered_tensor(DType dtype, const Dims& shape, std::uint64_t seed) {
  Tensor tensor = make_cpu_tensor(dtype, shape).value();
  std::byte* data = tensor.storage->memory()->data;
  for (std::int64_t i = 0; i < tensor.bytes(); ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    data[i] = static_cast<std::byte>(seed >> 56);
  }
  return tensor;
}

/// A rank's DTensor of zeros, or on the meta device. A rank outside the mesh has nothing.
inline DTensor empty_dtensor(DType dtype, const std::shared_ptr<const Sharding>& sharding, int rank,
                             bool meta = false, CutOrder order = CutOrder::kSpec) {
  const auto coordinate = sharding->mesh->coordinate_of(rank);
  const Dims shape = coordinate ? local_shape(*sharding, *coordinate, order) : Dims{0};
  return {meta ? meta_tensor(dtype, shape) : make_cpu_tensor(dtype, shape).value(), sharding};
}

template <class T>
const T& entry(const Dict& dict, const std::string& key) {
  const Value* value = find(dict, key);
  if (!value || !value->get_if<T>()) throw std::runtime_error("no such entry: " + key);
  return *value->get_if<T>();
}

inline std::vector<float> floats(const Tensor& tensor) {
  const std::string bytes = dense_bytes(tensor);
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace shardkit::testing
