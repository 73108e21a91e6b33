// From the ranks' messages to one table, and what must be equal in it.
#include "shardkit/distributed/joint_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "shardkit/collective/agreement.h"
#include "shardkit/distributed/form_message.h"
#include "shardkit/distributed/mesh_groups.h"
#include "shardkit/state/pair_walk_internal.h"

namespace shardkit {
namespace {

Error damaged() {
  return {ErrorCode::kPeer, "a message of another rank is damaged: it is no list of tensors"};
}

Value encode_path(const StatePath& path) {
  List parts;
  for (const StatePath::Part& part : path.parts)
    std::visit([&](const auto& each) { parts.items.emplace_back(each); }, part);
  return parts;
}

Result<StatePath> decode_path(const Value& value) {
  const auto* parts = value.get_if<List>();
  if (!parts) return damaged();
  StatePath path;
  for (const Value& part : parts->items) {
    if (const auto* text = part.get_if<std::string>()) {
      path.parts.emplace_back(*text);
    } else if (const auto* index = part.get_if<std::int64_t>()) {
      path.parts.emplace_back(*index);
    } else {
      return damaged();
    }
  }
  return path;
}

// A rank's own tensors must mean something before they are told to others.
Status check_own(const Value& form, const ProcessGroup& group) {
  if (const auto* dtensor = form.get_if<DTensor>()) {
    if (!dtensor->sharding || !dtensor->sharding->mesh)
      return Error(ErrorCode::kInvalidArgument, "a DTensor has no sharding or no mesh");
    SHARDKIT_TRY(check_sharding(*dtensor->sharding));
    SHARDKIT_TRY(check_ranks(*dtensor->sharding->mesh, group));
  }
  for (const Tensor* tensor : internal::local_tensors(form)) SHARDKIT_TRY(check_view(*tensor));
  return {};
}

Result<std::string> encode(const std::vector<TensorForm>& tensors, std::string_view options,
                           const ProcessGroup& group) {
  List list;
  std::set<std::string> known;
  for (const auto& [path, form] : tensors) {
    Status status = check_own(form, group);
    if (status.ok() && !known.insert(tuple_text(path)).second)
      status = Error(ErrorCode::kInvalidArgument, "two tensors have the same path");
    if (!status.ok()) return std::move(status).error().of_tensor(internal::shown_place(path));
    list.items.emplace_back(Tuple{{encode_path(path), form}});
  }
  return encode_form(Tuple{{std::string(options), std::move(list)}});
}

Error disagreement(std::string what, const std::string& name) {
  return Error(ErrorCode::kInvalidArgument, std::move(what)).of_tensor(name);
}

// What differs that may not, whatever the local tensors.
std::optional<std::string> joint_difference(const Value& a, const Value& b) {
  if (kind_name(a) != kind_name(b)) return fmt::format("{} against {}", kind_name(a), kind_name(b));
  if (const auto* dtensor = a.get_if<DTensor>()) {
    const auto& other = *b.get_if<DTensor>();
    if (dtensor->local.dtype != other.local.dtype)
      return fmt::format("{} against {}", torch_name(dtensor->local.dtype),
                         torch_name(other.local.dtype));
    return internal::sharding_difference(*dtensor->sharding, *other.sharding);
  }
  return internal::metadata_difference(*a.get_if<ShardedTensor>(), *b.get_if<ShardedTensor>());
}

}  // namespace

Result<JointForms> JointForms::exchange(ProcessGroup& group, Result<std::vector<TensorForm>> mine,
                                        std::string_view options) {
  auto message =
      mine.ok() ? encode(*mine, options, group) : Result<std::string>(std::move(mine).error());
  SHARDKIT_ASSIGN(const auto messages, exchange_messages(group, std::move(message)));
  JointForms forms;
  std::string common;  // rank 0's options: compared with them, all ranks find the same
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    SHARDKIT_ASSIGN(Value message_of_rank, decode_form(messages[rank]));
    auto* pair = message_of_rank.get_if<Tuple>();
    if (!pair || pair->items.size() != 2) return damaged();
    const auto* theirs = pair->items[0].get_if<std::string>();
    if (!theirs) return damaged();
    if (rank == 0) common = *theirs;
    if (*theirs != common)
      return Error(ErrorCode::kInvalidArgument,
                   fmt::format("ranks 0 and {} are called with different options", rank))
          .expected(common)
          .found(*theirs);
    SHARDKIT_TRY(forms.add(static_cast<int>(rank), std::move(pair->items[1])));
  }
  SHARDKIT_TRY(forms.check(group.size()));
  for (const auto& [text, tensors] : forms.tensors_) forms.paths_.push_back(tensors.path);
  return forms;
}

Status JointForms::add(int rank, Value tensors_of_rank) {
  auto* list = tensors_of_rank.get_if<List>();
  if (!list) return damaged();
  for (Value& item : list->items) {
    auto* pair = item.get_if<Tuple>();
    if (!pair || pair->items.size() != 2 || !is_tensor(pair->items[1])) return damaged();
    SHARDKIT_ASSIGN(StatePath path, decode_path(pair->items[0]));
    Tensors& tensors = tensors_[tuple_text(path)];
    tensors.path = std::move(path);
    tensors.by_rank.emplace(rank, std::move(pair->items[1]));
  }
  return {};
}

// What is equal to one is equal to each other: the first of the ranks that share a tensor is
// compared with all. The others are compared with it, lest it shares its own with other ranks.
Status JointForms::check(int group_size) const {
  std::vector<std::int64_t> all(static_cast<std::size_t>(group_size));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  for (const auto& [text, tensors] : tensors_) {
    const auto& [path, by_rank] = tensors;
    const std::string name = internal::shown_place(path);
    for (const auto& [rank, form] : by_rank) {
      const auto* dtensor = form.get_if<DTensor>();
      if (form.get_if<Tensor>() || (dtensor && !dtensor->sharding->mesh->coordinate_of(rank)))
        continue;
      std::span<const std::int64_t> partners = dtensor ? dtensor->sharding->mesh->ranks() : all;
      if (partners.front() != rank) partners = partners.first(1);
      for (const std::int64_t partner : partners) {
        const auto theirs = by_rank.find(static_cast<int>(partner));
        if (theirs == by_rank.end())
          return disagreement(fmt::format("rank {} has no tensor there, which rank {} shares with "
                                          "it",
                                          partner, rank),
                              name);
        if (auto what = joint_difference(form, theirs->second))
          return disagreement(
              fmt::format("ranks {} and {} disagree on it: {}", rank, partner, *what), name);
      }
    }
  }
  return {};
}

const Value* JointForms::find(const StatePath& path, int rank) const {
  const auto tensor = tensors_.find(tuple_text(path));
  if (tensor == tensors_.end()) return nullptr;
  const auto form = tensor->second.by_rank.find(rank);
  return form == tensor->second.by_rank.end() ? nullptr : &form->second;
}

}  // namespace shardkit
