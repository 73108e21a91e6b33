// Rank 0 decides who is served when, packs what is no run of bytes, and scatters.
#include <algorithm>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "shardkit/base/checked_math.h"
#include "shardkit/collective/agreement.h"
#include "shardkit/collective/message.h"
#include "shardkit/distributed/box_run_internal.h"
#include "shardkit/distributed/scatter_boxes_internal.h"
#include "shardkit/state/memory.h"
#include "shardkit/tensor/memory_range.h"
#include "shardkit/tensor/strided_copy.h"

namespace shardkit::internal {
namespace {

/// One call of the group: ranks [first, end) get their boxes of a tensor.
struct Step {
  std::size_t tensor = 0;
  int first = 0;
  int end = 0;
};

/// Boxes that are packed, so that ranks that keep the same ones (replicas) share the bytes.
using PackKey = std::vector<std::int64_t>;

PackKey pack_key(std::span<const BoxPair> boxes) {
  PackKey key;
  for (const BoxPair& box : boxes)
    for (const Dims* dims : {&box.local_offset, &box.global.offset, &box.global.shape})
      key.insert(key.end(), dims->begin(), dims->end());
  return key;
}

Result<Buffer> make_buffer(std::int64_t bytes) {
  if (bytes == 0) return Buffer();
  Buffer buffer(new (std::nothrow) std::byte[static_cast<std::size_t>(bytes)]);
  if (!buffer) return Error(ErrorCode::kLimit, "no memory for " + std::to_string(bytes) + " bytes");
  return buffer;
}

/// A dense tensor of a target's shape in a buffer that outlives it.
Tensor dense_view(const Tensor& local, std::byte* data) {
  Tensor view;
  view.dtype = local.dtype;
  view.shape = local.shape;
  view.strides = contiguous_strides(local.shape);
  view.storage = std::make_shared<const Storage>(MemoryBlock{nullptr, data},
                                                 static_cast<std::uint64_t>(local.bytes()));
  return view;
}

/// The bytes of boxes that need no packing.
std::optional<std::span<std::byte>> straight_run(const Tensor& source,
                                                 std::span<const BoxPair> boxes) {
  if (!is_contiguous(source) || boxes.size() != 1) return std::nullopt;
  const auto first = run_of(source.shape, boxes[0].global);
  if (!first) return std::nullopt;
  const std::int64_t item = item_bytes(source.dtype);
  return bytes_of(source).subspan(
      static_cast<std::size_t>(*first * item),
      static_cast<std::size_t>(*element_count(boxes[0].global.shape) * item));
}

/// Rank 0's side.
class Sender {
 public:
  Sender(std::span<const Tensor> sources, std::span<const NamedTensorInfo> tensors,
         const JointTargets& joint, int size)
      : sources_(sources), tensors_(tensors), joint_(joint), size_(size) {}

  /// Steps in which no more is packed than the largest tensor has bytes, and memory for that.
  Result<std::string> plan() {
    std::int64_t capacity = 0;
    for (std::size_t t = 0; t < tensors_.size(); ++t)
      if (is_wanted(t)) capacity = std::max(capacity, sources_[t].bytes());
    std::int64_t most = 0;
    for (std::size_t t = 0; t < tensors_.size(); ++t)
      if (is_wanted(t)) most = std::max(most, plan_tensor(t, capacity));
    SHARDKIT_ASSIGN(packed_, make_buffer(most));
    MessageWriter out;
    out.put(static_cast<std::int64_t>(steps_.size()));
    for (const Step& step : steps_) {
      out.put(static_cast<std::int64_t>(step.tensor));
      out.put(step.first);
      out.put(step.end);
    }
    return std::move(out).take();
  }

  /// What each rank gets; spans into the tensor or into what is packed here until the next call.
  std::vector<std::span<const std::byte>> parts(const Step& step) {
    std::vector<std::span<const std::byte>> parts(static_cast<std::size_t>(size_));
    const Tensor& source = sources_[step.tensor];
    std::map<PackKey, std::span<const std::byte>> known;
    std::byte* free = packed_.get();
    for (int rank = std::max(step.first, 1); rank < step.end; ++rank) {
      const Tensor* local = wanted(step.tensor, rank);
      if (!local) continue;
      auto& part = parts[static_cast<std::size_t>(rank)];
      const auto boxes = joint_.boxes(tensors_[step.tensor], rank);
      if (const auto run = straight_run(source, boxes)) {
        part = *run;
        continue;
      }
      const auto [at, added] = known.try_emplace(pack_key(boxes));
      if (added) {
        const Tensor packed = dense_view(*local, free);
        copy_boxes(source, boxes, packed);
        at->second = bytes_of(packed);
        free += packed.bytes();
      }
      part = at->second;
    }
    return parts;
  }

 private:
  /// What a rank is to get elements for; null if for none.
  const Tensor* wanted(std::size_t tensor, int rank) const {
    const Tensor* local = joint_.local_form(tensors_[tensor].name, rank);
    return local && local->numel() > 0 ? local : nullptr;
  }

  bool is_wanted(std::size_t tensor) const {
    for (int rank = 0; rank < size_; ++rank)
      if (wanted(tensor, rank)) return true;
    return false;
  }

  /// Adds the tensor's steps; the most bytes that one of them packs.
  std::int64_t plan_tensor(std::size_t tensor, std::int64_t capacity) {
    Step step{tensor, 0, 0};
    std::int64_t most = 0;
    std::int64_t packed = 0;
    std::map<PackKey, bool> known;
    for (int rank = 1; rank < size_; ++rank) {
      const Tensor* local = wanted(tensor, rank);
      if (!local) continue;
      const auto boxes = joint_.boxes(tensors_[tensor], rank);
      if (straight_run(sources_[tensor], boxes)) continue;
      const std::int64_t bytes = local->bytes();
      PackKey key = pack_key(boxes);
      if (known.contains(key)) continue;
      if (packed + bytes > capacity) {
        step.end = rank;
        steps_.push_back(step);
        step.first = rank;
        packed = 0;
        known.clear();
      }
      known.emplace(std::move(key), true);
      packed += bytes;
      most = std::max(most, packed);
    }
    step.end = size_;
    steps_.push_back(step);
    return most;
  }

  std::span<const Tensor> sources_;
  std::span<const NamedTensorInfo> tensors_;
  const JointTargets& joint_;
  const int size_;
  std::vector<Step> steps_;
  Buffer packed_;
};

Result<std::vector<Step>> decode_steps(std::string_view message, std::size_t tensors, int size) {
  MessageReader in(message);
  SHARDKIT_ASSIGN(const std::size_t count, in.count());
  std::vector<Step> steps(count);
  for (Step& step : steps) {
    SHARDKIT_ASSIGN(const std::int64_t tensor,
                    in.number_up_to(static_cast<std::int64_t>(tensors) - 1));
    SHARDKIT_ASSIGN(const std::int64_t first, in.number_up_to(size));
    SHARDKIT_ASSIGN(const std::int64_t end, in.number_up_to(size));
    step = {static_cast<std::size_t>(tensor), static_cast<int>(first), static_cast<int>(end)};
  }
  SHARDKIT_TRY(in.expect_end());
  return steps;
}

}  // namespace

Result<Buffer> arrival_buffer(std::span<const Target> targets) {
  std::int64_t most = 0;
  for (const Target& target : targets)
    if (!is_contiguous(target.local())) most = std::max(most, target.local().bytes());
  return make_buffer(most);
}

Status scatter_boxes(ProcessGroup& group, std::span<const Tensor> sources,
                     std::span<const NamedTensorInfo> tensors, std::span<const Target> targets,
                     const JointTargets& joint, const Buffer& arrival) {
  const bool sends = group.rank() == 0;
  Sender sender(sources, tensors, joint, group.size());
  SHARDKIT_ASSIGN(const auto messages,
                  exchange_messages(group, sends ? sender.plan() : std::string()));
  SHARDKIT_ASSIGN(const auto steps, decode_steps(messages[0], tensors.size(), group.size()));
  std::vector<const Target*> of_tensor(tensors.size(), nullptr);
  for (const Target& target : targets) of_tensor[target.tensor] = &target;
  for (const Step& step : steps) {
    const bool serves_me = step.first <= group.rank() && group.rank() < step.end;
    const Target* target = serves_me ? of_tensor[step.tensor] : nullptr;
    std::vector<std::span<const std::byte>> parts;
    std::span<std::byte> mine;
    std::optional<Tensor> arrived;
    if (sends) {
      parts = sender.parts(step);
      if (target && !is_same_view(sources[step.tensor], target->local())) {
        const auto boxes = joint.boxes(tensors[step.tensor], 0);
        const auto run = straight_run(sources[step.tensor], boxes);
        if (run && is_contiguous(target->local())) {
          // The group copies it while it waits for the others.
          parts[0] = *run;
          mine = bytes_of(target->local());
        } else {
          copy_boxes(sources[step.tensor], boxes, target->local());
        }
      }
    } else if (target && is_contiguous(target->local())) {
      mine = bytes_of(target->local());
    } else if (target) {
      arrived = dense_view(target->local(), arrival.get());
      mine = bytes_of(*arrived);
    }
    SHARDKIT_TRY(group.scatter(parts, mine, 0));
    if (arrived)
      strided_copy(item_bytes(arrived->dtype), arrived->shape, arrival.get(), arrived->strides,
                   *first_element(target->local()), target->local().strides);
  }
  return {};
}

}  // namespace shardkit::internal
