// Small tensors, shardings and state dicts for tests, in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shardkit/base/checked_math.h"
#include "shardkit/layout/sharding.h"
#include "shardkit/state/value.h"

namespace shardkit::testing {

/// A storage in memory that holds the values as they are.
template <class T>
std::shared_ptr<const Storage> make_storage(const std::vector<T>& values) {
  const auto data = std::make_shared<std::vector<T>>(values);
  const MemoryBlock block{data, reinterpret_cast<std::byte*>(data->data())};
  return std::make_shared<const Storage>(block, values.size() * sizeof(T));
}

/// A contiguous tensor. T must be of the dtype's size.
template <class T>
Tensor make_tensor(DType dtype, Dims shape, const std::vector<T>& values) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.strides = contiguous_strides(shape);
  tensor.shape = std::move(shape);
  tensor.storage = make_storage(values);
  return tensor;
}

inline Tensor float_tensor(Dims shape, const std::vector<float>& values) {
  return make_tensor(DType::kFloat32, std::move(shape), values);
}

inline std::shared_ptr<const Sharding> make_sharding(Dims mesh_shape,
                                                     std::vector<std::int64_t> ranks,
                                                     std::vector<Placement> placements,
                                                     Dims shape) {
  Sharding sharding;
  sharding.mesh = std::make_shared<const DeviceMesh>(
      DeviceMesh::make("cpu", std::move(mesh_shape), std::move(ranks)).value());
  sharding.placements = std::move(placements);
  sharding.shape = std::move(shape);
  return std::make_shared<const Sharding>(std::move(sharding));
}

/// A shape without bytes: on the meta device.
inline Tensor meta_tensor(DType dtype, const Dims& shape) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.strides = contiguous_strides(shape);
  tensor.storage = std::make_shared<const Storage>(
      NoBytes(), static_cast<std::uint64_t>(*element_count(shape) * item_bytes(dtype)));
  return tensor;
}

/// Two floats at byte 64 of "model.pt".
inline Tensor tensor_in_file() {
  Tensor tensor = float_tensor({2}, {1, 2});
  tensor.storage = std::make_shared<const Storage>(
      FileRange{std::make_shared<const std::string>("model.pt"), 64}, 8);
  return tensor;
}

/// The floats of a whole storage in memory, in its order.
inline std::vector<float> stored_floats(const Tensor& tensor) {
  std::vector<float> values(tensor.storage->bytes() / sizeof(float));
  if (!values.empty())
    std::memcpy(values.data(), tensor.storage->memory()->data, tensor.storage->bytes());
  return values;
}

/// Whether a whole storage in memory is zeros.
inline bool all_zero(const Tensor& tensor) {
  const std::byte* data = tensor.storage->memory()->data;
  return std::all_of(data, data + tensor.storage->bytes(),
                     [](std::byte byte) { return byte == std::byte(0); });
}

inline Value number(std::int64_t n) { return n; }
inline Value list(std::vector<Value> items) { return List{std::move(items)}; }

inline Dict make_dict(std::initializer_list<std::pair<std::string, Value>> items) {
  Dict dict;
  for (const auto& [key, value] : items) dict.items.emplace_back(Value(key), value);
  return dict;
}

}  // namespace shardkit::testing
