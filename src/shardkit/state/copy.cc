// Copies between trees: first all checks, then all bytes.
#include "shardkit/state/copy.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "shardkit/state/memory.h"
#include "shardkit/state/pair_walk_internal.h"
#include "shardkit/tensor/memory_range.h"
#include "shardkit/tensor/strided_copy.h"

namespace shardkit {
namespace {

using internal::PairWalk;

struct Step {
  StatePath path;
  const Tensor* from;
  const std::byte* source;
  const Tensor* to;
  std::byte* target;
};

std::optional<Error> refuse_object(const Value& value, const StatePath& path) {
  if (!value.get_if<Set>() && !value.get_if<Opaque>()) return std::nullopt;
  const auto* object = value.get_if<Opaque>();
  return Error(ErrorCode::kUnsupported, "a value of this kind is not copied")
      .of_tensor(internal::shown_place(path))
      .found(object ? std::string_view(object->class_name) : kind_name(value));
}

// Checks everything and notes what to copy.
class CopyPlan : public PairWalk {
 public:
  std::optional<Error>& error() { return error_; }
  const std::vector<Step>& steps() const { return steps_; }
  Status check_overlaps() const;
  /// The tensors of `to`, in the order in which a walk of `from` meets their partners.
  const std::vector<const Value*>& targets() const { return targets_; }

 protected:
  bool leaf(const Value& from, const Value& to) override {
    error_ = refuse_object(from, path());
    if (error_) return false;
    if (!internal::is_any_tensor(from)) return true;
    if (auto what = internal::form_difference(from, to)) return differ(*std::move(what));
    targets_.push_back(&to);
    const auto of_from = internal::local_tensors(from);
    const auto of_to = internal::local_tensors(to);
    for (std::size_t i = 0; i < of_from.size(); ++i) {
      auto status = add(*of_from[i], *of_to[i]);
      if (status.ok()) continue;
      error_ = std::move(status).error().of_tensor(internal::shown_place(path()));
      return false;
    }
    return true;
  }

 private:
  Status add(const Tensor& from, const Tensor& to) {
    SHARDKIT_ASSIGN(const std::byte* source, first_element(from));
    SHARDKIT_ASSIGN(std::byte* target, first_element(to));
    if (!source) return {};
    if (!has_own_places(to))
      return Error(ErrorCode::kInvalidArgument, "elements of the tensor to be written share memory")
          .found(fmt::format("shape {}, strides {}", to_string(to.shape), to_string(to.strides)));
    if (source == target && from.strides == to.strides) return {};
    steps_.push_back({path(), &from, source, &to, target});
    return {};
  }

  std::vector<Step> steps_;
  std::vector<const Value*> targets_;
  std::optional<Error> error_;
};

// No tensor may be read after a part of it was overwritten, its own step's or another's (two
// tensors that swap places). Views that interleave are taken to overlap.
Status CopyPlan::check_overlaps() const {
  std::vector<MemoryRange> ranges;
  for (const Step& step : steps_) ranges.push_back(memory_range(*step.to));
  const MemoryRanges targets(std::move(ranges));
  for (const Step& step : steps_)
    if (targets.overlap(memory_range(*step.from)))
      return Error(ErrorCode::kInvalidArgument,
                   "a tensor to be written overlaps the one to be copied")
          .of_tensor(internal::shown_place(step.path));
  return {};
}

// A tree with its tensors exchanged for others, in the order in which they come.
class TensorExchange {
 public:
  explicit TensorExchange(const std::vector<const Value*>& tensors) : tensors_(tensors) {}

  Value make(const Value& value) {
    if (internal::is_any_tensor(value)) return *tensors_[next_++];
    if (const auto* list = value.get_if<List>()) return List{make(list->items)};
    if (const auto* tuple = value.get_if<Tuple>()) return Tuple{make(tuple->items)};
    const auto* dict = value.get_if<Dict>();
    if (!dict) return value;
    Dict made;
    made.items.reserve(dict->items.size());
    for (const auto& [key, item] : dict->items) made.items.emplace_back(key, make(item));
    return made;
  }

 private:
  std::vector<Value> make(const std::vector<Value>& items) {
    std::vector<Value> made;
    made.reserve(items.size());
    for (const Value& item : items) made.push_back(make(item));
    return made;
  }

  const std::vector<const Value*>& tensors_;
  std::size_t next_ = 0;
};

// Checks that all tensors are in memory, and notes them.
class OffloadCheck {
 public:
  std::vector<StatePath> take_shared() { return std::move(shared_); }

  Status visit(const Value& value) {
    if (auto error = refuse_object(value, path_)) return *std::move(error);
    if (internal::is_any_tensor(value)) return visit_tensor(value);
    if (const auto* list = value.get_if<List>()) return visit_items(list->items);
    if (const auto* tuple = value.get_if<Tuple>()) return visit_items(tuple->items);
    const auto* dict = value.get_if<Dict>();
    if (!dict) return {};
    for (const auto& [key, item] : dict->items) {
      path_.parts.emplace_back(internal::shown_key(key));
      SHARDKIT_TRY(visit(item));
      path_.parts.pop_back();
    }
    return {};
  }

 private:
  Status visit_items(const std::vector<Value>& items) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      path_.parts.emplace_back(static_cast<std::int64_t>(i));
      SHARDKIT_TRY(visit(items[i]));
      path_.parts.pop_back();
    }
    return {};
  }

  Status visit_tensor(const Value& value) {
    for (const Tensor* tensor : internal::local_tensors(value)) {
      auto bytes = first_element(*tensor);
      if (!bytes.ok()) return std::move(bytes).error().of_tensor(internal::shown_place(path_));
    }
    shared_.push_back(path_);
    return {};
  }

  StatePath path_;
  std::vector<StatePath> shared_;
};

}  // namespace

Result<Value> copy_state_dict(const Value& from, const Value& to) {
  CopyPlan plan;
  if (!plan.walk(from, to)) {
    if (plan.error()) return *std::move(plan.error());
    return Error(ErrorCode::kInvalidArgument, "CompanionMismatch: " + plan.difference()->what)
        .of_tensor(internal::shown_place(plan.difference()->path))
        .with_detail(CompanionMismatch{to_string(plan.difference()->path)});
  }
  SHARDKIT_TRY(plan.check_overlaps());
  for (const Step& step : plan.steps())
    strided_copy(item_bytes(step.from->dtype), step.from->shape, step.source, step.from->strides,
                 step.target, step.to->strides);
  return TensorExchange(plan.targets()).make(from);
}

Result<OffloadedState> offload_state_dict_to_cpu(const Value& state) {
  OffloadCheck check;
  SHARDKIT_TRY(check.visit(state));
  return OffloadedState{state, check.take_shared()};
}

}  // namespace shardkit
