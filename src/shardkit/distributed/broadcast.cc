// Broadcasts: what rank 0 has, in one message; agreement; then the elements.
#include "shardkit/distributed/broadcast.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "shardkit/collective/agreement.h"
#include "shardkit/collective/message.h"
#include "shardkit/distributed/form_message.h"
#include "shardkit/distributed/scatter_boxes_internal.h"
#include "shardkit/distributed/targets_internal.h"
#include "shardkit/state/memory.h"
#include "shardkit/tensor/strided_copy.h"

namespace shardkit {
namespace {

using internal::Target;

/// The elements of small tensors, one after another.
class ElementWriter {
 public:
  /// All tensors that a value is or holds.
  Status put(const Value& value) {
    if (const auto* tensor = value.get_if<Tensor>()) return put_tensor(*tensor);
    if (value.get_if<DTensor>() || value.get_if<ShardedTensor>()) return internal::not_whole(value);
    if (const auto* list = value.get_if<List>()) return put_items(list->items);
    if (const auto* tuple = value.get_if<Tuple>()) return put_items(tuple->items);
    if (const auto* set = value.get_if<Set>()) return put_items(set->items);
    if (const auto* object = value.get_if<Opaque>()) return put_items(object->state);
    if (const auto* dict = value.get_if<Dict>())
      for (const auto& [key, item] : dict->items) SHARDKIT_TRY(put(item));
    return {};
  }

  const std::string& bytes() const { return bytes_; }

 private:
  Status put_items(const std::vector<Value>& items) {
    for (const Value& item : items) SHARDKIT_TRY(put(item));
    return {};
  }

  Status put_tensor(const Tensor& tensor) {
    SHARDKIT_ASSIGN(const Tensor copy, internal::copy_of(tensor));
    const auto* data = reinterpret_cast<const char*>(copy.storage->memory()->data);
    bytes_.append(data, static_cast<std::size_t>(copy.bytes()));
    return {};
  }

  std::string bytes_;
};

/// Gives the tensors of a decoded form their memory and elements, in the same order.
class ElementReader {
 public:
  explicit ElementReader(std::string_view bytes) : rest_(bytes) {}

  Status fill(Value& value) {
    if (auto* tensor = value.get_if<Tensor>()) return fill_tensor(*tensor);
    if (auto* list = value.get_if<List>()) return fill_items(list->items);
    if (auto* tuple = value.get_if<Tuple>()) return fill_items(tuple->items);
    if (auto* set = value.get_if<Set>()) return fill_items(set->items);
    if (auto* object = value.get_if<Opaque>()) return fill_items(object->state);
    if (auto* dict = value.get_if<Dict>())
      for (auto& [key, item] : dict->items) SHARDKIT_TRY(fill(item));
    return {};
  }

 private:
  Status fill_items(std::vector<Value>& items) {
    for (Value& item : items) SHARDKIT_TRY(fill(item));
    return {};
  }

  Status fill_tensor(Tensor& tensor) {
    const auto bytes = static_cast<std::size_t>(tensor.bytes());
    if (bytes > rest_.size())
      return Error(ErrorCode::kPeer, "a message of rank 0 is damaged: elements are missing");
    SHARDKIT_ASSIGN(tensor, make_unfilled_cpu_tensor(tensor.dtype, tensor.shape));
    std::memcpy(tensor.storage->memory()->data, rest_.data(), bytes);
    rest_.remove_prefix(bytes);
    return {};
  }

  std::string_view rest_;
};

/// A tensor that travels by itself; all other values go with the message.
const Tensor* large_tensor(const Value& value) {
  const auto* tensor = value.get_if<Tensor>();
  return tensor && !tensor->shape.empty() ? tensor : nullptr;
}

/// What rank 0 tells all of its full state.
Result<std::string> describe(const Dict& full) {
  ElementWriter elements;
  for (const auto& [key, value] : full.items) {
    const auto* name = key.get_if<std::string>();
    if (!name)
      return Error(ErrorCode::kInvalidArgument, "a key of the full state is no text")
          .found(kind_name(key));
    if (large_tensor(value)) continue;
    if (auto status = elements.put(value); !status.ok())
      return std::move(status).error().of_tensor(*name);
  }
  MessageWriter out;
  out.put(encode_form(full));
  out.put(elements.bytes());
  return std::move(out).take();
}

/// A full state as a rank knows it: its tensors in the order in which they are numbered.
struct Described {
  std::vector<NamedTensorInfo> tensors;  ///< those that travel by themselves come first
  std::size_t large = 0;                 ///< how many do
  std::vector<Tensor> small;             ///< the rest, with their elements
  std::vector<std::pair<std::string, Value>> others;
};

Result<Described> read_description(std::string_view message) {
  MessageReader in(message);
  SHARDKIT_ASSIGN(const std::string form, in.text());
  SHARDKIT_ASSIGN(const std::string elements, in.text());
  SHARDKIT_TRY(in.expect_end());
  SHARDKIT_ASSIGN(Value root, decode_form(form));
  Described described;
  std::vector<NamedTensorInfo> small;
  ElementReader reader(elements);
  auto* dict = root.get_if<Dict>();
  if (!dict) return Error(ErrorCode::kPeer, "a message of rank 0 is damaged: it is no dict");
  for (auto& [key, value] : dict->items) {
    const auto* name = key.get_if<std::string>();
    if (!name) return Error(ErrorCode::kPeer, "a message of rank 0 is damaged: a key is no text");
    if (const Tensor* tensor = large_tensor(value)) {
      described.tensors.push_back({*name, {tensor->shape, tensor->dtype}});
      continue;
    }
    if (auto status = reader.fill(value); !status.ok())
      return std::move(status).error().of_tensor(*name);
    if (const auto* tensor = value.get_if<Tensor>()) {
      small.push_back({*name, {tensor->shape, tensor->dtype}});
      described.small.push_back(*tensor);
    } else {
      described.others.emplace_back(*name, std::move(value));
    }
  }
  described.large = described.tensors.size();
  described.tensors.insert(described.tensors.end(), small.begin(), small.end());
  return described;
}

/// One rank's part of a broadcast, from the first look at its local state to the last element.
struct Work {
  std::vector<Tensor> sources;  ///< on rank 0
  std::vector<Target> targets;
  internal::Buffer arrival;

  Status prepare(const Dict* full, std::span<const NamedTensorInfo> tensors, std::size_t large,
                 const Dict& local, const ProcessGroup& group) {
    if (full) SHARDKIT_TRY(find_sources(*full, tensors));
    SHARDKIT_ASSIGN(targets, internal::find_targets(local, internal::index_keys(local), tensors,
                                                    group, internal::DTypes::kEqual));
    const auto behind =
        std::partition_point(targets.begin(), targets.end(),
                             [large](const Target& target) { return target.tensor < large; });
    const std::span of_large(targets.data(), static_cast<std::size_t>(behind - targets.begin()));
    if (full) SHARDKIT_TRY(internal::check_sources(sources, targets, tensors));
    SHARDKIT_ASSIGN(arrival, internal::arrival_buffer(of_large));
    return {};
  }

 private:
  Status find_sources(const Dict& full, std::span<const NamedTensorInfo> tensors) {
    const auto keys = internal::index_keys(full);
    for (const NamedTensorInfo& each : tensors) {
      const auto key = keys.find(each.name);
      if (key == keys.end())
        return Error(ErrorCode::kNotFound, "the full state has no such key").of_tensor(each.name);
      const Value& value = full.items[key->second].second;
      const auto* tensor = value.get_if<Tensor>();
      if (!tensor) return internal::not_whole(value).of_tensor(each.name);
      if (TensorInfo{tensor->shape, tensor->dtype} != each.info)
        return Error(ErrorCode::kInvalidArgument, "the full tensor is not what was told of it")
            .of_tensor(each.name)
            .expected(std::string(torch_name(each.info.dtype)) + to_string(each.info.size))
            .found(std::string(torch_name(tensor->dtype)) + to_string(tensor->shape));
      if (auto first = first_element(*tensor); !first.ok())
        return std::move(first).error().of_tensor(each.name);
      sources.push_back(*tensor);
    }
    return {};
  }
};

/// Agrees, and moves the elements into the targets; the local state is not changed yet.
///
/// @param small  the tensors behind `large`, with their elements
Result<std::vector<Target>> carry_out(Result<Work> work, std::span<const NamedTensorInfo> tensors,
                                      std::size_t large, std::span<const Tensor> small,
                                      ProcessGroup& group) {
  Result<std::vector<Target>> mine = std::vector<Target>();
  if (work.ok()) {
    mine = std::move(work->targets);
  } else {
    mine = std::move(work).error();
  }
  SHARDKIT_ASSIGN(const auto joint, internal::JointTargets::agree(group, tensors, mine));
  std::vector<Target> of_large;
  for (const Target& target : *mine)
    if (target.tensor < large) of_large.push_back(target);
  SHARDKIT_TRY(internal::scatter_boxes(group, work->sources, tensors.first(large), of_large, joint,
                                       work->arrival));
  for (const Target& target : *mine)
    if (target.tensor >= large)
      internal::copy_boxes(small[target.tensor - large],
                           joint.boxes(tensors[target.tensor], group.rank()), target.local());
  SHARDKIT_TRY(agree_on_status(group, internal::check_twins(*mine, tensors)));
  return *std::move(mine);
}

Result<Work> prepared(const Dict& full, std::span<const NamedTensorInfo> tensors, std::size_t large,
                      const Dict& local, const ProcessGroup& group) {
  Work work;
  SHARDKIT_TRY(work.prepare(group.rank() == 0 ? &full : nullptr, tensors, large, local, group));
  return work;
}

std::string encode_infos(std::span<const NamedTensorInfo> tensors) {
  MessageWriter out;
  for (const NamedTensorInfo& each : tensors) {
    out.put(each.name);
    out.put(each.info.size);
    out.put(static_cast<std::int64_t>(each.info.dtype));
  }
  return std::move(out).take();
}

}  // namespace

Status broadcast_tensors(const Dict& full, std::span<const NamedTensorInfo> tensors, Dict& local,
                         ProcessGroup& group) {
  const std::string infos = encode_infos(tensors);
  SHARDKIT_ASSIGN(const auto messages,
                  exchange_messages(group, group.rank() == 0 ? infos : std::string()));
  Result<Work> work = prepared(full, tensors, tensors.size(), local, group);
  if (messages[0] != infos)
    work =
        Error(ErrorCode::kInvalidArgument, "the tensors to be broadcast are not those of rank 0");
  SHARDKIT_ASSIGN(auto targets, carry_out(std::move(work), tensors, tensors.size(), {}, group));
  internal::install(std::move(targets), local);
  return {};
}

Status broadcast_state_dict(const Dict& full, Dict& local, ProcessGroup& group,
                            const BroadcastOptions& options) {
  SHARDKIT_ASSIGN(const auto messages,
                  exchange_messages(group, group.rank() == 0 ? describe(full) : std::string()));
  Result<Described> described = read_description(messages[0]);
  Result<Work> work = described.ok()
                          ? prepared(full, described->tensors, described->large, local, group)
                          : Result<Work>(described.error());
  if (!described.ok()) described = Described();
  SHARDKIT_ASSIGN(auto targets, carry_out(std::move(work), described->tensors, described->large,
                                          described->small, group));
  internal::install(std::move(targets), local);
  const auto keys = internal::index_keys(local);
  for (auto& [name, value] : described->others)
    if (const auto key = keys.find(name); key != keys.end())
      local.items[key->second].second = std::move(value);
  if (!options.strict) return {};
  std::unordered_set<std::string> known;
  for (const NamedTensorInfo& each : described->tensors) known.insert(each.name);
  for (const auto& [name, value] : described->others) known.insert(name);
  std::erase_if(local.items, [&known](const auto& item) {
    const auto* name = item.first.template get_if<std::string>();
    return !name || !known.contains(*name);
  });
  return {};
}

}  // namespace shardkit
