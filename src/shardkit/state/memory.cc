// Memory for tensors, and trees of fresh tensors.
#include "shardkit/state/memory.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

#include "shardkit/base/checked_math.h"
#include "shardkit/state/pair_walk_internal.h"
#include "shardkit/tensor/strided_copy.h"

namespace shardkit {
namespace {

constexpr std::size_t kAlignment = 64;

class FreshTree {
 public:
  Result<Value> make(const Value& value) {
    if (const auto* tensor = value.get_if<Tensor>()) {
      SHARDKIT_ASSIGN(Tensor made, fresh(*tensor));
      return Value(std::move(made));
    }
    if (const auto* dtensor = value.get_if<DTensor>()) {
      SHARDKIT_ASSIGN(Tensor local, fresh(dtensor->local));
      return Value(DTensor{std::move(local), dtensor->sharding});
    }
    if (const auto* sharded = value.get_if<ShardedTensor>()) {
      ShardedTensor made = *sharded;
      for (auto& shard : made.local_shards) {
        SHARDKIT_ASSIGN(shard.tensor, fresh(shard.tensor));
      }
      return Value(std::move(made));
    }
    if (const auto* dict = value.get_if<Dict>()) return make_dict(*dict);
    if (const auto* list = value.get_if<List>()) {
      SHARDKIT_ASSIGN(auto items, make_items(list->items));
      return Value(List{std::move(items)});
    }
    if (const auto* tuple = value.get_if<Tuple>()) {
      SHARDKIT_ASSIGN(auto items, make_items(tuple->items));
      return Value(Tuple{std::move(items)});
    }
    if (const auto* set = value.get_if<Set>()) {
      SHARDKIT_ASSIGN(auto items, copy_items(set->items));
      return Value(Set{std::move(items)});
    }
    if (const auto* object = value.get_if<Opaque>()) {
      SHARDKIT_ASSIGN(auto state, copy_items(object->state));
      return Value(Opaque{object->class_name, std::move(state)});
    }
    return value;
  }

 private:
  Result<Value> make_dict(const Dict& dict) {
    Dict made;
    made.items.reserve(dict.items.size());
    for (const auto& [key, item] : dict.items) {
      path_.parts.emplace_back(internal::shown_key(key));
      SHARDKIT_ASSIGN(Value fresh_item, make(item));
      path_.parts.pop_back();
      made.items.emplace_back(key, std::move(fresh_item));
    }
    return Value(std::move(made));
  }

  Result<std::vector<Value>> make_items(const std::vector<Value>& items) {
    std::vector<Value> made;
    made.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      path_.parts.emplace_back(static_cast<std::int64_t>(i));
      SHARDKIT_ASSIGN(Value item, make(items[i]));
      path_.parts.pop_back();
      made.push_back(std::move(item));
    }
    return made;
  }

  // Below a set or an object tensors keep their elements.
  Result<std::vector<Value>> copy_items(const std::vector<Value>& items) {
    const bool outer = std::exchange(with_elements_, true);
    auto made = make_items(items);
    with_elements_ = outer;
    return made;
  }

  Result<Tensor> fresh(const Tensor& tensor) {
    auto made = fresh_tensor(tensor);
    if (made.ok()) return made;
    return std::move(made).error().of_tensor(internal::shown_place(path_));
  }

  Result<Tensor> fresh_tensor(const Tensor& tensor) {
    const bool meta = tensor.storage && tensor.storage->is_meta();
    if (meta && !with_elements_) return make_cpu_tensor(tensor.dtype, tensor.shape);
    SHARDKIT_ASSIGN(const std::byte* source, first_element(tensor));
    SHARDKIT_ASSIGN(Tensor made, make_cpu_tensor(tensor.dtype, tensor.shape));
    if (with_elements_ && source)
      strided_copy(item_bytes(tensor.dtype), tensor.shape, source, tensor.strides,
                   made.storage->memory()->data, made.strides);
    return made;
  }

  bool with_elements_ = false;
  StatePath path_;
};

}  // namespace

Result<Tensor> make_cpu_tensor(DType dtype, const Dims& shape) {
  const auto numel = element_count(shape);
  const auto bytes = numel ? checked_mul(*numel, item_bytes(dtype)) : std::nullopt;
  if (!bytes || *bytes > INT64_MAX - static_cast<std::int64_t>(kAlignment))
    return Error(ErrorCode::kInvalidArgument, "no tensor can have this shape")
        .found(to_string(shape));
  // calloc(), since the system hands out large runs of zeros without touching them.
  void* memory = std::calloc(static_cast<std::size_t>(*bytes) + kAlignment, 1);
  if (!memory) return Error(ErrorCode::kLimit, fmt::format("no memory for {} bytes", *bytes));
  std::shared_ptr<void> owner(memory, std::free);
  void* data = memory;
  std::size_t room = static_cast<std::size_t>(*bytes) + kAlignment;
  std::align(kAlignment, static_cast<std::size_t>(*bytes), data, room);
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.strides = contiguous_strides(shape);
  tensor.storage = std::make_shared<const Storage>(
      MemoryBlock{std::move(owner), static_cast<std::byte*>(data)},
      static_cast<std::uint64_t>(*bytes));
  return tensor;
}

Result<std::byte*> first_element(const Tensor& tensor) {
  SHARDKIT_TRY(check_view(tensor));
  if (tensor.storage && tensor.storage->file())
    return Error(ErrorCode::kInvalidArgument, "the tensor lies in a file and must be read first")
        .in_file(*tensor.storage->file()->path);
  if (tensor.storage && tensor.storage->is_meta())
    return Error(ErrorCode::kInvalidArgument, "the tensor has no bytes (meta)");
  if (tensor.numel() == 0) return nullptr;
  return tensor.storage->memory()->data + tensor.offset * item_bytes(tensor.dtype);
}

Result<Value> create_cpu_state_dict(const Value& state) { return FreshTree().make(state); }

}  // namespace shardkit
