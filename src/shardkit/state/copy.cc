// Copies between trees: first all checks, then all bytes.
#include "shardkit/state/copy.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "shardkit/state/memory.h"
#include "shardkit/state/pair_walk_internal.h"
#include "shardkit/state/tree_map_internal.h"
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
  std::byte* target;  // null: the same elements, which are read and not written
};

// Checks everything and notes what to copy.
class CopyPlan : public PairWalk {
 public:
  explicit CopyPlan(bool type_check) : type_check_(type_check) {}

  std::optional<Error>& error() { return error_; }
  const std::vector<Step>& steps() const { return steps_; }
  Status check_overlaps() const;
  /// The tensors of `to`, in the order in which a walk of `from` meets their partners.
  const std::vector<const Value*>& targets() const { return targets_; }

 protected:
  bool leaf(const Value& from, const Value& to) override {
    if (type_check_ && (from.get_if<Set>() || from.get_if<Opaque>())) {
      error_ = internal::unexpected_object(from).of_tensor(internal::shown_place(path()));
      return false;
    }
    if (!is_tensor(from)) return true;
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
    SHARDKIT_ASSIGN(std::byte * target, first_element(to));
    if (!source) return {};
    if (!has_own_places(to))
      return Error(ErrorCode::kInvalidArgument, "elements of the tensor to be written share memory")
          .found(fmt::format("shape {}, strides {}", to_string(to.shape), to_string(to.strides)));
    if (source == target && from.strides == to.strides) target = nullptr;
    steps_.push_back({path(), &from, source, &to, target});
    return {};
  }

  bool type_check_;
  std::vector<Step> steps_;
  std::vector<const Value*> targets_;
  std::optional<Error> error_;
};

// No tensor may be read after a part of it was overwritten, its own step's or another's (two
// tensors that swap places). Views that interleave are taken to overlap.
Status CopyPlan::check_overlaps() const {
  std::vector<MemoryRange> ranges;
  for (const Step& step : steps_)
    if (step.target) ranges.push_back(memory_range(*step.to));
  const MemoryRanges targets(std::move(ranges));
  for (const Step& step : steps_)
    if (targets.overlap(memory_range(*step.from)))
      return Error(ErrorCode::kInvalidArgument,
                   "a tensor to be written overlaps the one to be copied")
          .of_tensor(internal::shown_place(step.path));
  return {};
}

// A tree with its tensors exchanged for others, in the order in which they come.
class TensorExchange : public internal::TreeMap {
 public:
  explicit TensorExchange(const std::vector<const Value*>& tensors) : tensors_(tensors) {}

 private:
  Result<Value> tensor(const Value&) override { return *tensors_[next_++]; }
  Result<Value> object(const Value& value) override { return create_cpu_state_dict(value); }

  const std::vector<const Value*>& tensors_;
  std::size_t next_ = 0;
};

// Checks that all tensors are in memory, and notes them.
class Offload : public internal::TreeMap {
 public:
  std::vector<StatePath> take_shared() { return std::move(shared_); }

 private:
  Result<Value> tensor(const Value& value) override {
    for (const Tensor* local : internal::local_tensors(value)) {
      SHARDKIT_TRY(first_element(*local));
    }
    shared_.push_back(path());
    return value;
  }
  Result<Value> object(const Value& value) override { return internal::unexpected_object(value); }

  std::vector<StatePath> shared_;
};

}  // namespace

Result<Value> copy_state_dict(const Value& from, const Value& to, bool type_check) {
  CopyPlan plan(type_check);
  if (!plan.walk(from, to)) {
    if (plan.error()) return *std::move(plan.error());
    return Error(ErrorCode::kInvalidArgument, "CompanionMismatch: " + plan.difference()->what)
        .of_tensor(internal::shown_place(plan.difference()->path))
        .with_detail(CompanionMismatch{to_string(plan.difference()->path)});
  }
  SHARDKIT_TRY(plan.check_overlaps());
  for (const Step& step : plan.steps())
    if (step.target)
      strided_copy(item_bytes(step.from->dtype), step.from->shape, step.source, step.from->strides,
                   step.target, step.to->strides);
  return TensorExchange(plan.targets()).map(from);
}

Result<OffloadedState> offload_state_dict_to_cpu(const Value& state) {
  Offload offload;
  SHARDKIT_ASSIGN(Value offloaded, offload.map(state));
  return OffloadedState{std::move(offloaded), offload.take_shared()};
}

}  // namespace shardkit
