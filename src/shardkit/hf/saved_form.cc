// Applies the rules of a family to the names and shapes of a state dict.
#include "shardkit/hf/saved_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "shardkit/base/checked_math.h"
#include "shardkit/hf/name_pattern.h"
#include "shardkit/hf/natural_order.h"
#include "shardkit/hf/save_rule_names.h"
#include "shardkit/hf/save_scopes.h"
#include "shardkit/hf/weight_conversions.h"

namespace shardkit::hf {
namespace {

using Change = SaveRule::Change;

/// More experts than any model has; more is no tensor of experts.
constexpr std::int64_t kMostExperts = 1 << 16;

std::span<const std::string_view> used(const std::string_view (&names)[kMostRuleNames]) {
  std::size_t count = 0;
  while (count < kMostRuleNames && !names[count].empty()) ++count;
  return {names, count};
}

/// "experts.*.up_proj" -> "experts.3.up_proj"
std::string numbered(std::string_view pattern, std::int64_t number) {
  const std::size_t star = pattern.find('*');
  return fmt::format("{}{}{}", pattern.substr(0, star), number, pattern.substr(star + 1));
}

/// What stands behind "experts." in a name: "gate_up_proj", "3.up_proj.weight"; empty: nothing.
std::string_view behind_experts(std::string_view name) {
  constexpr std::string_view kExperts = ".experts.";
  const std::size_t at = name.find(kExperts);
  return at == name.npos ? std::string_view() : name.substr(at + kExperts.size());
}

bool starts_with_digit(std::string_view text) {
  return !text.empty() && text[0] >= '0' && text[0] <= '9';
}

/// A tensor of one expert, under a name that the rule makes or that such a name is the start of: a
/// scale or a bias.
bool is_saved_by(const SaveRule& rule, std::string_view name) {
  if (rule.change != Change::kUnstack) return false;
  const std::span<const std::string_view> patterns = used(rule.saved);
  return std::any_of(patterns.begin(), patterns.end(), [name](std::string_view pattern) {
    constexpr std::string_view kWeight = "weight";
    if (pattern.ends_with(kWeight)) pattern.remove_suffix(kWeight.size());
    return matches(fmt::format("*{}*", pattern), name);
  });
}

bool unstacks(const SaveScope& scope) {
  return std::any_of(scope.family->conversions.begin(), scope.family->conversions.end(),
                     [](const SaveRule& rule) { return rule.change == Change::kUnstack; });
}

/// "'a' and 2 more"
std::string some_of(const std::vector<std::string>& names) {
  std::string text = fmt::format("'{}'", names[0]);
  if (names.size() > 1) text += fmt::format(" and {} more", names.size() - 1);
  return text;
}

/// 0, 1, 2, ...
Dims places(std::size_t count) {
  Dims all(count, 0);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// All dimensions at their places, but for `dim` and the next.
Dims exchanged(std::size_t count, std::size_t dim) {
  Dims order = places(count);
  std::swap(order[dim], order[dim + 1]);
  return order;
}

/// A shape whose dimension `dim` is these instead.
Dims split(const Dims& shape, std::size_t dim, const Dims& factors) {
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  const auto at = sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(dim));
  sizes.insert(at, factors.begin(), factors.end());
  return Dims(std::span<const std::int64_t>(sizes));
}

Error uneven(const SavedTensor& tensor) {
  return Error(ErrorCode::kCorrupt,
               "a dimension cannot be divided into the parts that transformers saves")
      .of_tensor(tensor.name)
      .found(to_string(tensor.shape));
}

class Saver {
 public:
  /// @param config  null: there is none
  Saver(const ModelConfig* config, std::vector<SaveScope> scopes, std::span<const HeldTensor> held)
      : config_(config), scopes_(std::move(scopes)), held_(held) {}

  void add(std::size_t index);
  Result<std::vector<SavedTensor>> finish() &&;
  /// What is to be told of experts that no rule took.
  void tell(const std::string& model_type, SavedForm& form) const;

 private:
  /// What is still to be joined: a place for each tensor of the rule.
  struct Joint {
    const SaveRule* rule = nullptr;
    std::string_view part;  // of config.json, the configuration of what it is in; empty: the top
    std::vector<std::optional<std::size_t>> held;
    std::size_t place = 0;  // in saved_
    bool is_taken_twice = false;
  };

  std::string renamed(std::string name) const;
  bool convert(const SaveScope& scope, const SaveRule& rule, std::size_t index, std::size_t from);
  bool chunk(const SaveRule& rule, std::size_t index, const FoundName& found);
  void cut_in_shards(const SaveRule& rule, std::size_t index, const FoundName& found);
  bool cut(std::size_t index, std::size_t dim, std::span<const std::string> names);
  bool pair(const SaveRule& rule, std::size_t index, const FoundName& found);
  bool unstack(const SaveRule& rule, std::size_t which, std::size_t index, const FoundName& found);
  bool transpose(const SaveRule& rule, std::size_t index, const FoundName& found);
  bool join(const SaveScope& scope, const SaveRule& rule, std::size_t which, std::size_t index,
            const FoundName& found);
  void keep(std::size_t index);
  /// A listed family without experts one by one saves them fused.
  bool saves_fused(std::string_view name) const;

  /// Attention heads of the part that the rule is for; an error where config.json does not tell.
  Result<std::int64_t> heads(const Joint& joint) const;
  Status fill(const Joint& joint, SavedTensor& tensor) const;

  const ModelConfig* const config_;
  const std::vector<SaveScope> scopes_;
  const std::span<const HeldTensor> held_;
  std::vector<SavedTensor> saved_;
  std::map<std::string, Joint> joints_;  // by the name that they are saved under
  std::vector<std::string> fused_;
  std::vector<std::string> odd_;  // neither fused nor named as saved
  std::size_t already_saved_ = 0;
  std::optional<Error> uncut_;
};

std::string Saver::renamed(std::string name) const {
  for (const SaveScope& scope : scopes_)
    for (const SaveRule& rule : scope.family->renames)
      if (const auto from = scope.prefix_length(name))
        name = hf::renamed(rule, std::move(name), *from);
  return name;
}

void Saver::add(std::size_t index) {
  for (const SaveScope& scope : scopes_)
    for (const SaveRule& rule : scope.family->conversions)
      if (const auto from = scope.prefix_length(held_[index].name))
        if (convert(scope, rule, index, *from)) return;
  keep(index);
}

bool Saver::convert(const SaveScope& scope, const SaveRule& rule, std::size_t index,
                    std::size_t from) {
  const std::span<const std::string_view> patterns = used(rule.held);
  for (std::size_t which = 0; which < patterns.size(); ++which) {
    const auto found = find_in_name(patterns[which], held_[index].name, from);
    if (!found) continue;
    switch (rule.change) {
      case Change::kUnstack: return unstack(rule, which, index, *found);
      case Change::kChunk: return chunk(rule, index, *found);
      case Change::kShards: cut_in_shards(rule, index, *found); return true;
      case Change::kJoin:
      case Change::kJoinHeads:
      case Change::kInterleave: return join(scope, rule, which, index, *found);
      case Change::kTranspose: return transpose(rule, index, *found);
      case Change::kPairs: return pair(rule, index, *found);
      case Change::kRename: return false;
    }
  }
  return false;
}

bool Saver::unstack(const SaveRule& rule, std::size_t held, std::size_t index,
                    const FoundName& found) {
  const Dims& shape = held_[index].shape;
  const std::span<const std::string_view> names = used(rule.saved);
  std::int64_t first = 0;
  if (held > 0) {
    const std::string other = found.with(rule.held[0]);
    const auto before =
        std::find_if(held_.begin(), held_.end(), [&other](const HeldTensor& tensor) {
          return tensor.name == other && !tensor.shape.empty() && tensor.shape[0] <= kMostExperts;
        });
    if (before == held_.end()) return false;
    first = before->shape[0];
  }
  const auto shares = static_cast<std::int64_t>(names.size());
  if (shape.size() < 2 || shape[0] > kMostExperts || shape[1] % shares != 0) return false;
  for (std::size_t which = 0; which < names.size(); ++which) {
    for (std::int64_t entry = 0; entry < shape[0]; ++entry) {
      SavedTensor tensor;
      tensor.name = renamed(found.with(numbered(names[which], first + entry)));
      Box box = whole(shape);
      box.offset[0] = entry;
      box.shape[0] = 1;
      box.shape[1] = shape[1] / shares;
      box.offset[1] = static_cast<std::int64_t>(which) * box.shape[1];
      tensor.shape = Dims(std::span<const std::int64_t>(box.shape.begin() + 1, box.shape.end()));
      tensor.parts.push_back({index, std::move(box)});
      tensor.is_entry = true;
      saved_.push_back(std::move(tensor));
    }
  }
  return true;
}

/// As torch.chunk: the last gets less.
bool Saver::cut(std::size_t index, std::size_t dim, std::span<const std::string> names) {
  const Dims& shape = held_[index].shape;
  const auto shares = static_cast<std::int64_t>(names.size());
  if (shape.size() <= dim || shape[dim] < 0) return false;
  const std::int64_t share = shape[dim] / shares + (shape[dim] % shares != 0);
  if (share * (shares - 1) >= shape[dim]) return false;
  for (std::size_t which = 0; which < names.size(); ++which) {
    SavedTensor tensor;
    tensor.name = renamed(names[which]);
    Box box = whole(shape);
    box.offset[dim] = static_cast<std::int64_t>(which) * share;
    box.shape[dim] = std::min(share, shape[dim] - box.offset[dim]);
    tensor.shape = box.shape;
    tensor.parts.push_back({index, std::move(box)});
    saved_.push_back(std::move(tensor));
  }
  return true;
}

bool Saver::chunk(const SaveRule& rule, std::size_t index, const FoundName& found) {
  std::vector<std::string> names;
  for (const std::string_view name : used(rule.saved)) names.push_back(found.with(name));
  return cut(index, rule.dim, names);
}

void Saver::cut_in_shards(const SaveRule& rule, std::size_t index, const FoundName& found) {
  const auto count = config_->sizes.split_ngram_parts.value_or(0);
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count && count <= kMostExperts; ++i)
    names.push_back(found.with(numbered(rule.saved[0], i)));
  if (!names.empty() && cut(index, 0, names)) return;
  uncut_ =
      Error(ErrorCode::kUnsupported,
            "config.json does not tell into how many parts transformers cuts a tensor")
          .of_tensor(held_[index].name)
          .expected(fmt::format("split_ngram_parts that share {}", to_string(held_[index].shape)))
          .found(std::to_string(count));
}

bool Saver::transpose(const SaveRule& rule, std::size_t index, const FoundName& found) {
  const Dims& shape = held_[index].shape;
  if (shape.size() < 2) return false;
  SavedTensor tensor{renamed(found.with(rule.saved[0])), shape, {{index, whole(shape)}}};
  std::swap(tensor.shape[shape.size() - 2], tensor.shape[shape.size() - 1]);
  tensor.parts[0].order = exchanged(shape.size(), shape.size() - 2);
  saved_.push_back(std::move(tensor));
  return true;
}

bool Saver::pair(const SaveRule& rule, std::size_t index, const FoundName& found) {
  const Dims& shape = held_[index].shape;
  if (shape.size() != 3 || shape[1] != 4) return false;
  const auto rows = checked_mul(shape[0], std::int64_t{2});
  if (!rows) return false;
  constexpr std::int64_t kEntries[2][2] = {{0, 3}, {1, 2}};
  for (std::size_t which = 0; which < 2; ++which) {
    SavedTensor tensor{renamed(found.with(rule.saved[which])), {*rows, shape[2]}, {}};
    tensor.view = {shape[0], 2, shape[2]};
    tensor.along = 1;
    for (const std::int64_t entry : kEntries[which]) {
      Box box = whole(shape);
      box.offset[1] = entry;
      box.shape[1] = 1;
      tensor.parts.push_back({index, std::move(box)});
    }
    saved_.push_back(std::move(tensor));
  }
  return true;
}

bool Saver::join(const SaveScope& scope, const SaveRule& rule, std::size_t which, std::size_t index,
                 const FoundName& found) {
  const std::string name = renamed(found.with(rule.saved[0]));
  const auto [joint, is_new] = joints_.try_emplace(name);
  if (is_new) {
    joint->second.rule = &rule;
    joint->second.part = rule.heads_of.empty() ? scope.part : rule.heads_of;
    joint->second.held.resize(used(rule.held).size());
    joint->second.place = saved_.size();
    saved_.push_back({name, {}, {}});
  }
  // Renames may make one name of two, and a tensor of one rule may have a name that another rule
  // makes, which has fewer places.
  Joint& place = joint->second;
  if (place.rule != &rule || place.held[which])
    place.is_taken_twice = true;
  else
    place.held[which] = index;
  return true;
}

bool Saver::saves_fused(std::string_view name) const {
  return std::none_of(scopes_.begin(), scopes_.end(), unstacks) &&
         std::any_of(scopes_.begin(), scopes_.end(), [name](const SaveScope& scope) {
           return scope.prefix_length(name).has_value();
         });
}

void Saver::keep(std::size_t index) {
  const HeldTensor& tensor = held_[index];
  const std::string_view behind = behind_experts(tensor.name);
  if (starts_with_digit(behind)) {
    const bool known = std::any_of(scopes_.begin(), scopes_.end(), [&](const SaveScope& scope) {
      return std::any_of(
          scope.family->conversions.begin(), scope.family->conversions.end(),
          [&tensor](const SaveRule& rule) { return is_saved_by(rule, tensor.name); });
    });
    if (known)
      ++already_saved_;
    else if (std::any_of(scopes_.begin(), scopes_.end(), unstacks))
      odd_.push_back(tensor.name);
  } else if (!behind.empty() && tensor.shape.size() > 2 && !saves_fused(tensor.name)) {
    fused_.push_back(tensor.name);
  }
  saved_.push_back({renamed(tensor.name), tensor.shape, {{index, whole(tensor.shape)}}});
}

Result<std::int64_t> Saver::heads(const Joint& joint) const {
  // Never those of another part, by which the rows may be shared all the same.
  std::optional<std::int64_t> heads;
  if (joint.part.empty()) heads = config_->sizes.num_attention_heads;
  for (const ConfigPart& part : config_->parts)
    if (part.name == joint.part) heads = part.num_attention_heads;
  if (heads && *heads > 0) return *heads;
  return Error(ErrorCode::kUnsupported,
               "config.json does not tell the number of heads by which transformers orders rows")
      .expected(fmt::format("{}{}num_attention_heads", joint.part, joint.part.empty() ? "" : "."));
}

/// The parts of a joined tensor, its shape and its view.
/// REQUIRES: the held tensors have the same sizes but for the dimension on which they are joined.
Status Saver::fill(const Joint& joint, SavedTensor& tensor) const {
  const SaveRule& rule = *joint.rule;
  for (const std::optional<std::size_t>& index : joint.held)
    tensor.parts.push_back({*index, whole(held_[*index].shape)});
  if (rule.change == Change::kJoin) return {};
  const std::size_t dim = rule.dim;
  const std::int64_t rows = held_[*joint.held[0]].shape[dim];
  if (rule.change == Change::kInterleave) {
    const bool alone = joint.held.size() == 1;
    const std::int64_t half = alone ? rows / 2 : rows;
    if (tensor.shape[dim] % 2 != 0 || half < 1) return uneven(tensor);
    for (SavedPart& part : tensor.parts) {
      if (part.box.shape[dim] != rows) return uneven(tensor);
      part.split = dim;
      part.factors = alone ? Dims{2, half} : Dims{half, 1};
      if (alone) part.order = exchanged(tensor.shape.size() + 1, dim);
    }
    tensor.view = split(tensor.shape, dim, {half, 2});
    tensor.along = alone ? 0 : dim + 1;
    return {};
  }
  SHARDKIT_ASSIGN(const std::int64_t count, heads(joint));
  const std::int64_t half = rows / count / 2;
  if (half < 1 || rows != count * half * 2) return uneven(tensor);
  for (std::size_t which = 0; which < tensor.parts.size(); ++which) {
    SavedPart& part = tensor.parts[which];
    if (part.box.shape[0] != rows) return uneven(tensor);
    part.factors = which < 2 ? Dims{count, 2, half} : Dims{count, half, 2};
    if (which < 2) part.order = exchanged(tensor.shape.size() + 2, 1);
  }
  tensor.view = split(tensor.shape, 0, {tensor.shape[0] / half / 2, half, 2});
  return {};
}

Result<std::vector<SavedTensor>> Saver::finish() && {
  if (uncut_) return *std::move(uncut_);
  for (const auto& [name, joint] : joints_) {
    if (joint.is_taken_twice)
      return Error(ErrorCode::kCorrupt, "two tensors would be saved as one part of a tensor")
          .of_tensor(name);
    SavedTensor& tensor = saved_[joint.place];
    const std::size_t dim = joint.rule->dim;
    for (const std::optional<std::size_t>& index : joint.held) {
      if (!index)
        return Error(ErrorCode::kIncomplete,
                     "not all tensors are there that are saved as one; transformers joins them")
            .of_tensor(name);
      const Dims& shape = held_[*index].shape;
      const bool is_first = &index == &joint.held.front();
      if (is_first && shape.size() <= dim) return uneven(tensor);
      if (is_first) tensor.shape = shape;
      Dims joined = shape;
      if (shape.size() > dim) joined[dim] = tensor.shape[dim];
      const auto rows =
          shape.size() > dim ? checked_add(tensor.shape[dim], shape[dim]) : std::nullopt;
      if (shape.size() != tensor.shape.size() || !(joined == tensor.shape) || !rows)
        return Error(ErrorCode::kIncomplete, "tensors that are saved as one do not fit each other")
            .of_tensor(name)
            .expected(to_string(tensor.shape))
            .found(to_string(shape));
      if (!is_first) tensor.shape[dim] = *rows;
    }
    SHARDKIT_TRY(fill(joint, tensor));
  }
  std::unordered_set<std::string_view> names;
  for (const SavedTensor& tensor : saved_)
    if (!names.insert(tensor.name).second)
      return Error(ErrorCode::kCorrupt, "two tensors would be saved under one name")
          .of_tensor(tensor.name);
  return std::move(saved_);
}

void Saver::tell(const std::string& model_type, SavedForm& form) const {
  if (already_saved_ > 0)
    form.notes.push_back(fmt::format(
        "{} tensors hold one expert each already, as transformers saves them", already_saved_));
  if (!odd_.empty())
    form.warnings.push_back(fmt::format(
        "{} are named neither as transformers holds experts of type '{}' nor as it saves them: "
        "they are written as they are, and a reader may not match them",
        some_of(odd_), model_type));
  if (fused_.empty()) return;
  const std::string model =
      model_type.empty() ? "such a model" : fmt::format("a model of type '{}'", model_type);
  form.warnings.push_back(fmt::format(
      "{} hold experts in one tensor each, and how {} saves them is not known here: they are "
      "written as they are, and a reader that wants the experts one by one will not match them",
      some_of(fused_), model));
}

}  // namespace

Result<SavedForm> saved_form(const ModelConfig* config, std::span<const HeldTensor> held) {
  SavedForm form;
  std::vector<SaveScope> scopes;
  if (config != nullptr) scopes = save_scopes(*config);
  const bool changes = std::any_of(scopes.begin(), scopes.end(), [](const SaveScope& scope) {
    return !scope.family->conversions.empty() || !scope.family->renames.empty();
  });
  std::vector<std::size_t> order(held.size());
  std::iota(order.begin(), order.end(), 0);
  if (changes)
    std::stable_sort(order.begin(), order.end(), [held](std::size_t a, std::size_t b) {
      return natural_less(held[a].name, held[b].name);
    });
  Saver saver(config, std::move(scopes), held);
  for (const std::size_t index : order) saver.add(index);
  saver.tell(config != nullptr ? config->model_type : std::string(), form);
  if (changes) {
    SHARDKIT_ASSIGN(form.tensors, std::move(saver).finish());
  }
  return form;
}

}  // namespace shardkit::hf
