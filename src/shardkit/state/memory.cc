// Memory for tensors, and trees of fresh tensors.
#include "shardkit/state/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "shardkit/base/checked_math.h"
#include "shardkit/state/shared_memory.h"
#include "shardkit/state/tree_map_internal.h"
#include "shardkit/tensor/strided_copy.h"

namespace shardkit {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

enum class Content { kZero, kUnspecified };

// Shared memory that tensors of this process look at.
class SharedOwner {
 public:
  SharedOwner(SharedMemory memory, std::shared_ptr<HostPinner> pinner)
      : memory_(std::move(memory)), pinner_(std::move(pinner)) {}
  ~SharedOwner() {
    if (pinner_) pinner_->unpin(memory_.data());
  }
  SharedOwner(const SharedOwner&) = delete;
  SharedOwner& operator=(const SharedOwner&) = delete;

  const SharedMemory& memory() const { return memory_; }

 private:
  SharedMemory memory_;
  std::shared_ptr<HostPinner> pinner_;  // null: not pinned
};

// Tells a block of shared memory from others: std::get_deleter() finds it there alone.
struct SharedOwnerDeleter {
  void operator()(SharedOwner* owner) const { delete owner; }
};

MemoryBlock shared_block(SharedMemory memory, std::shared_ptr<HostPinner> pinner) {
  std::byte* const data = memory.data();
  const std::shared_ptr<SharedOwner> owner(new SharedOwner(std::move(memory), std::move(pinner)),
                                           SharedOwnerDeleter());
  return {owner, data};
}

Result<std::shared_ptr<HostPinner>> pinner_of(const MemoryOptions& options) {
  if (options.pinner) return options.pinner;
  return cuda_host_pinner();
}

Result<MemoryBlock> allocate_pinned(std::size_t bytes, const MemoryOptions& options,
                                    Content content) {
  SHARDKIT_ASSIGN(const std::shared_ptr<HostPinner> pinner, pinner_of(options));
  SHARDKIT_ASSIGN(std::byte * data, pinner->allocate(bytes));
  std::shared_ptr<void> owner(
      data, [pinner](void* memory) { pinner->free(static_cast<std::byte*>(memory)); });
  if (content == Content::kZero) std::memset(data, 0, bytes);
  return MemoryBlock{std::move(owner), data};
}

Result<MemoryBlock> allocate_shared(std::uint64_t bytes, const MemoryOptions& options) {
  const bool pin = options.pin_memory && bytes > 0;
  std::shared_ptr<HostPinner> pinner;
  if (pin) {
    SHARDKIT_ASSIGN(pinner, pinner_of(options));
  }
  SHARDKIT_ASSIGN(SharedMemory memory, SharedMemory::create(bytes));
  if (pin) SHARDKIT_TRY(pinner->pin(memory.data(), static_cast<std::size_t>(bytes)));
  return shared_block(std::move(memory), std::move(pinner));
}

Result<MemoryBlock> allocate_private(std::size_t bytes, Content content) {
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  std::size_t room = bytes + alignment;
  // calloc(), since the system hands out large runs of zeros without touching them.
  void* memory = content == Content::kZero ? std::calloc(room, 1) : std::malloc(room);
  if (!memory) return Error(ErrorCode::kLimit, fmt::format("no memory for {} bytes", bytes));
  std::shared_ptr<void> owner(memory, std::free);
  void* data = memory;
  std::align(alignment, bytes, data, room);
  // A hint; where the system refuses, small pages do.
  if (bytes >= kHugePage) ::madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return MemoryBlock{std::move(owner), static_cast<std::byte*>(data)};
}

Result<std::uint64_t> checked_bytes(DType dtype, const Dims& shape) {
  const auto numel = element_count(shape);
  const auto bytes = numel ? checked_mul(*numel, item_bytes(dtype)) : std::nullopt;
  if (!bytes || *bytes > INT64_MAX - static_cast<std::int64_t>(kHugePage))
    return Error(ErrorCode::kInvalidArgument, "no tensor can have this shape")
        .found(to_string(shape));
  return static_cast<std::uint64_t>(*bytes);
}

Tensor tensor_in(MemoryBlock block, std::uint64_t bytes, DType dtype, const Dims& shape) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.strides = contiguous_strides(shape);
  tensor.storage = std::make_shared<const Storage>(std::move(block), bytes);
  return tensor;
}

Result<Tensor> make_tensor(DType dtype, const Dims& shape, const MemoryOptions& options,
                           Content content) {
  SHARDKIT_ASSIGN(const std::uint64_t bytes, checked_bytes(dtype, shape));
  const auto size = static_cast<std::size_t>(bytes);
  SHARDKIT_ASSIGN(MemoryBlock block, options.share_memory ? allocate_shared(bytes, options)
                                     : options.pin_memory && bytes > 0
                                         ? allocate_pinned(size, options, content)
                                         : allocate_private(size, content));
  return tensor_in(std::move(block), bytes, dtype, shape);
}

// A fresh tensor for each.
class FreshTree : public internal::TreeMap {
 public:
  explicit FreshTree(const MemoryOptions& options) : options_(options) {}

 private:
  Result<Value> tensor(const Value& value) override {
    if (const auto* plain = value.get_if<Tensor>()) {
      SHARDKIT_ASSIGN(Tensor made, fresh(*plain));
      return Value(std::move(made));
    }
    if (const auto* dtensor = value.get_if<DTensor>()) {
      SHARDKIT_ASSIGN(Tensor local, fresh(dtensor->local));
      return Value(DTensor{std::move(local), dtensor->sharding});
    }
    ShardedTensor made = *value.get_if<ShardedTensor>();
    for (auto& shard : made.local_shards) {
      SHARDKIT_ASSIGN(shard.tensor, fresh(shard.tensor));
    }
    return Value(std::move(made));
  }

  // Below a set or an object tensors keep their elements.
  Result<Value> object(const Value& value) override {
    const bool outer = std::exchange(with_elements_, true);
    auto made = map_contents(value);
    with_elements_ = outer;
    return made;
  }

  Result<Tensor> fresh(const Tensor& tensor) {
    const bool meta = tensor.storage && tensor.storage->is_meta();
    if (meta && !with_elements_) return make_cpu_tensor(tensor.dtype, tensor.shape, options_);
    SHARDKIT_ASSIGN(const std::byte* source, first_element(tensor));
    if (!with_elements_) return make_cpu_tensor(tensor.dtype, tensor.shape, options_);
    SHARDKIT_ASSIGN(Tensor made, make_unfilled_cpu_tensor(tensor.dtype, tensor.shape));
    if (source)
      strided_copy(item_bytes(tensor.dtype), tensor.shape, source, tensor.strides,
                   made.storage->memory()->data, made.strides);
    return made;
  }

  const MemoryOptions& options_;
  bool with_elements_ = false;
};

}  // namespace

Result<Tensor> make_cpu_tensor(DType dtype, const Dims& shape, const MemoryOptions& memory) {
  return make_tensor(dtype, shape, memory, Content::kZero);
}

Result<Tensor> make_unfilled_cpu_tensor(DType dtype, const Dims& shape,
                                        const MemoryOptions& memory) {
  return make_tensor(dtype, shape, memory, Content::kUnspecified);
}

std::optional<std::string> shared_memory_name(const Tensor& tensor) {
  const MemoryBlock* block = tensor.storage ? tensor.storage->memory() : nullptr;
  if (!block || !std::get_deleter<SharedOwnerDeleter>(block->owner)) return std::nullopt;
  return static_cast<const SharedOwner*>(block->owner.get())->memory().name();
}

Result<Tensor> open_shared_tensor(const std::string& name, DType dtype, const Dims& shape) {
  SHARDKIT_ASSIGN(const std::uint64_t bytes, checked_bytes(dtype, shape));
  SHARDKIT_ASSIGN(SharedMemory memory, SharedMemory::open(name, bytes));
  return tensor_in(shared_block(std::move(memory), nullptr), bytes, dtype, shape);
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

Result<Value> create_cpu_state_dict(const Value& state, const MemoryOptions& memory) {
  return FreshTree(memory).map(state);
}

}  // namespace shardkit
