// Applies the rules of a family to the names and shapes of a state dict.
#include "shardkit/hf/saved_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "shardkit/base/checked_math.h"
#include "shardkit/hf/name_pattern.h"
#include "shardkit/hf/natural_order.h"
#include "shardkit/hf/weight_conversions.h"

namespace shardkit::hf {
namespace {

using Change = SaveRule::Change;

/// Where a part of a model lies (transformers 5).
struct Place {
  std::string_view member;  ///< of config.json, the part's configuration
  std::string_view prefix;  ///< of the names of its tensors
  /// Behind its model_type, where that has an entry of its own: which class it is made as.
  std::string_view made_as = {};
};

constexpr std::array kPlaces{
    Place{"text_config", "model.language_model."},
    Place{"text_config", "language_model."},
    Place{"text_config", "model.text_model."},
    Place{"text_config", "text_model."},
    Place{"vision_config", "model.vision_tower."},
    Place{"vision_config", "vision_tower."},
    Place{"vision_config", "model.vision_model."},
    Place{"vision_config", "vision_model."},
    Place{"audio_config", "model.audio_tower."},
    Place{"audio_config", "audio_tower."},
    Place{"thinker_config", "thinker."},
    Place{"vlm_config", "model.vlm.", " model"},
    Place{"vlm_config", "vlm.", " model"},
    Place{"codec_config", "codec_model."},
    Place{"tracker_config", "tracker_model."},
    Place{"encoder", "model.encoder."},
    Place{"encoder", "encoder."},
    Place{"decoder", "decoder."},
    Place{"decoder_config", "model.transformer_module.decoder."},
    Place{"decoder_config", "transformer_module.decoder."},
    Place{"backbone_config", "backbone.", " backbone"},
    Place{"backbone_config", "model.backbone.conv_encoder.model.", " backbone"},
    Place{"backbone_config", "backbone.conv_encoder.model.", " backbone"},
    Place{"backbone_config", "model.pixel_level_module.encoder.", " backbone"},
    Place{"backbone_config", "pixel_level_module.encoder.", " backbone"},
    Place{"image_model_config", "depth_pro.encoder.image_encoder.model."},
    Place{"image_model_config", "encoder.image_encoder.model."},
    Place{"patch_model_config", "depth_pro.encoder.patch_encoder.model."},
    Place{"patch_model_config", "encoder.patch_encoder.model."},
    Place{"fov_model_config", "fov_model.fov_encoder.model."},
};

/// In a rule's names: digits, and any characters.
constexpr std::string_view kWild = "#*";

/// More experts than any model has; more is no tensor of experts.
constexpr std::int64_t kMostExperts = 1 << 16;

/// The rules of a family, and the part of the model that they are for.
struct Scope {
  const SaveFamily* family = nullptr;
  std::string prefix;  ///< of the names that the rules are for; they do not look at it
};

/// The length of the prefix that a scope's rules do not look at; none: the name is out of scope.
std::optional<std::size_t> prefix_length(const Scope& scope, std::string_view name) {
  if (!name.starts_with(scope.prefix)) return std::nullopt;
  return scope.prefix.size();
}

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// A name around what a rule found in it.
struct Found {
  std::string_view before;
  std::string_view behind;
  std::string_view text;  ///< what was found
  std::string_view wild;  ///< of that, what '#' or '*' stands for

  std::string with(std::string_view middle) const {
    return fmt::format("{}{}{}", before, middle, behind);
  }
};

/// Whether `name` begins with `pattern`; `found` gets the text and what the wild character is.
bool begins_with(std::string_view name, std::string_view pattern, Found& found) {
  const std::size_t wild = pattern.find_first_of(kWild);
  if (wild == pattern.npos) {
    found.text = pattern;
    return name.starts_with(pattern);
  }
  if (!name.starts_with(pattern.substr(0, wild))) return false;
  const std::string_view rest = pattern.substr(wild + 1);
  const std::string_view from = name.substr(wild);
  std::size_t most = from.size();
  if (pattern[wild] == '#') most = std::min(most, from.find_first_not_of("0123456789"));
  for (std::size_t count = most; count > 0; --count) {  // as many as possible
    if (!from.substr(count).starts_with(rest)) continue;
    found.text = name.substr(0, wild + count + rest.size());
    found.wild = from.substr(0, count);
    return true;
  }
  return false;
}

std::optional<Found> find(std::string_view pattern, std::string_view name, std::size_t from) {
  const bool at_start = pattern.starts_with('^');
  if (at_start) pattern.remove_prefix(1);
  const bool whole_word = !pattern.empty() && is_letter_or_digit(pattern.back());
  for (std::size_t at = from; at < name.size(); ++at) {
    if (at_start && at != from) return std::nullopt;
    Found found;
    if (!begins_with(name.substr(at), pattern, found)) continue;
    const std::size_t end = at + found.text.size();
    const bool goes_on = end < name.size() && (is_letter_or_digit(name[end]) || name[end] == '_');
    if (whole_word && goes_on) continue;
    found.before = name.substr(0, at);
    found.behind = name.substr(end);
    return found;
  }
  return std::nullopt;
}

/// The name that a rename makes; as it is where it has the saved name already, inside which the
/// held one stands: "language_model.model.norm" of "language_model".
std::string rename(const SaveRule& rule, std::string name, std::size_t from) {
  const auto found = find(rule.held[0], name, from);
  if (!found) return name;
  std::string saved(rule.saved[0]);
  if (const std::size_t wild = saved.find_first_of(kWild);
      wild != saved.npos && !found->wild.empty())
    saved.replace(wild, 1, found->wild);
  const std::size_t inside = saved.find(found->text);
  const std::size_t at = found->before.size();
  if (inside != saved.npos && inside <= at &&
      std::string_view(name).substr(at - inside).starts_with(saved))
    return name;
  return found->with(saved);
}

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

bool unstacks(const Scope& scope) {
  return std::any_of(scope.family->conversions.begin(), scope.family->conversions.end(),
                     [](const SaveRule& rule) { return rule.change == Change::kUnstack; });
}

/// "'a' and 2 more"
std::string some_of(const std::vector<std::string>& names) {
  std::string text = fmt::format("'{}'", names[0]);
  if (names.size() > 1) text += fmt::format(" and {} more", names.size() - 1);
  return text;
}

class Saver {
 public:
  Saver(std::vector<Scope> scopes, std::span<const HeldTensor> held)
      : scopes_(std::move(scopes)), held_(held) {}

  void add(std::size_t index);
  Result<std::vector<SavedTensor>> finish() &&;
  /// What is to be told of experts that no rule took.
  void tell(const std::string& model_type, SavedForm& form) const;

 private:
  /// What is still to be joined: a place for each tensor of the rule.
  struct Joint {
    std::vector<std::optional<std::size_t>> held;
    std::size_t place = 0;  // in saved_
    bool is_taken_twice = false;
  };

  std::string renamed(std::string name) const;
  bool convert(const SaveRule& rule, std::size_t index, std::size_t from);
  bool chunk(const SaveRule& rule, std::size_t index, const Found& found);
  bool unstack(const SaveRule& rule, std::size_t which, std::size_t index, const Found& found);
  bool transpose(const SaveRule& rule, std::size_t index, const Found& found);
  bool join(const SaveRule& rule, std::size_t which, std::size_t index, const Found& found);
  void keep(std::size_t index);
  /// A listed family without experts one by one saves them fused.
  bool saves_fused(std::string_view name) const;

  const std::vector<Scope> scopes_;
  const std::span<const HeldTensor> held_;
  std::vector<SavedTensor> saved_;
  std::map<std::string, Joint> joints_;  // by the name that they are saved under
  std::vector<std::string> fused_;
  std::vector<std::string> odd_;  // neither fused nor named as saved
  std::size_t already_saved_ = 0;
};

std::string Saver::renamed(std::string name) const {
  for (const Scope& scope : scopes_)
    for (const SaveRule& rule : scope.family->renames)
      if (const auto from = prefix_length(scope, name))
        name = rename(rule, std::move(name), *from);
  return name;
}

void Saver::add(std::size_t index) {
  for (const Scope& scope : scopes_)
    for (const SaveRule& rule : scope.family->conversions)
      if (const auto from = prefix_length(scope, held_[index].name))
        if (convert(rule, index, *from)) return;
  keep(index);
}

bool Saver::convert(const SaveRule& rule, std::size_t index, std::size_t from) {
  const std::span<const std::string_view> patterns = used(rule.held);
  for (std::size_t which = 0; which < patterns.size(); ++which) {
    const auto found = find(patterns[which], held_[index].name, from);
    if (!found) continue;
    switch (rule.change) {
      case Change::kUnstack: return unstack(rule, which, index, *found);
      case Change::kChunk: return chunk(rule, index, *found);
      case Change::kJoin: return join(rule, which, index, *found);
      case Change::kTranspose: return transpose(rule, index, *found);
      case Change::kRename: return false;
    }
  }
  return false;
}

bool Saver::unstack(const SaveRule& rule, std::size_t held, std::size_t index,
                    const Found& found) {
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

bool Saver::chunk(const SaveRule& rule, std::size_t index, const Found& found) {
  const Dims& shape = held_[index].shape;
  const std::span<const std::string_view> names = used(rule.saved);
  const auto shares = static_cast<std::int64_t>(names.size());
  if (shape.empty() || shape[0] < 0) return false;
  const std::int64_t share = shape[0] / shares + (shape[0] % shares != 0);
  if (share * (shares - 1) >= shape[0]) return false;
  for (std::size_t which = 0; which < names.size(); ++which) {
    SavedTensor tensor;
    tensor.name = renamed(found.with(names[which]));
    Box box = whole(shape);
    box.offset[0] = static_cast<std::int64_t>(which) * share;
    box.shape[0] = std::min(share, shape[0] - box.offset[0]);
    tensor.shape = box.shape;
    tensor.parts.push_back({index, std::move(box)});
    saved_.push_back(std::move(tensor));
  }
  return true;
}

bool Saver::transpose(const SaveRule& rule, std::size_t index, const Found& found) {
  const Dims& shape = held_[index].shape;
  if (shape.size() != 2) return false;
  saved_.push_back({renamed(found.with(rule.saved[0])), {shape[1], shape[0]},
                    {{index, whole(shape)}}, false, true});
  return true;
}

bool Saver::join(const SaveRule& rule, std::size_t which, std::size_t index, const Found& found) {
  const std::string name = renamed(found.with(rule.saved[0]));
  const auto [joint, is_new] = joints_.try_emplace(name);
  if (is_new) {
    joint->second.held.resize(used(rule.held).size());
    joint->second.place = saved_.size();
    saved_.push_back({name, {}, {}});
  }
  // Renames may make one name of two.
  joint->second.is_taken_twice |= joint->second.held[which].has_value();
  joint->second.held[which] = index;
  return true;
}

bool Saver::saves_fused(std::string_view name) const {
  return std::none_of(scopes_.begin(), scopes_.end(), unstacks) &&
         std::any_of(scopes_.begin(), scopes_.end(), [name](const Scope& scope) {
           return prefix_length(scope, name).has_value();
         });
}

void Saver::keep(std::size_t index) {
  const HeldTensor& tensor = held_[index];
  const std::string_view behind = behind_experts(tensor.name);
  if (starts_with_digit(behind)) {
    const bool known = std::any_of(scopes_.begin(), scopes_.end(), [&tensor](const Scope& scope) {
      return std::any_of(
          scope.family->conversions.begin(), scope.family->conversions.end(),
          [&tensor](const SaveRule& rule) { return is_saved_by(rule, tensor.name); });
    });
    if (known) ++already_saved_;
    else if (std::any_of(scopes_.begin(), scopes_.end(), unstacks)) odd_.push_back(tensor.name);
  } else if (!behind.empty() && tensor.shape.size() > 2 && !saves_fused(tensor.name)) {
    fused_.push_back(tensor.name);
  }
  saved_.push_back({renamed(tensor.name), tensor.shape, {{index, whole(tensor.shape)}}});
}

Result<std::vector<SavedTensor>> Saver::finish() && {
  for (const auto& [name, joint] : joints_) {
    if (joint.is_taken_twice)
      return Error(ErrorCode::kCorrupt, "two tensors would be saved at one place").of_tensor(name);
    SavedTensor& tensor = saved_[joint.place];
    for (const std::optional<std::size_t>& index : joint.held) {
      if (!index)
        return Error(ErrorCode::kIncomplete,
                     "not all tensors are there that are saved as one; transformers joins them")
            .of_tensor(name);
      const Dims& shape = held_[*index].shape;
      tensor.parts.push_back({*index, whole(shape)});
      if (tensor.shape.empty()) {
        tensor.shape = shape;
        continue;
      }
      const auto rows = checked_add(tensor.shape[0], shape[0]);
      Dims joined = shape;
      joined[0] = tensor.shape[0];
      if (shape.size() != tensor.shape.size() || !(joined == tensor.shape) || !rows)
        return Error(ErrorCode::kIncomplete, "tensors that are saved as one do not fit each other")
            .of_tensor(name)
            .expected(to_string(tensor.shape))
            .found(to_string(shape));
      tensor.shape[0] = *rows;
    }
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
        "they are written as they are, and a reader may not match them", some_of(odd_),
        model_type));
  if (fused_.empty()) return;
  const std::string model =
      model_type.empty() ? "such a model" : fmt::format("a model of type '{}'", model_type);
  form.warnings.push_back(fmt::format(
      "{} hold experts in one tensor each, and how {} saves them is not known here: they are "
      "written as they are, and a reader that wants the experts one by one will not match them",
      some_of(fused_), model));
}

void add_scope(const SaveFamily* family, std::string prefix, std::vector<Scope>& scopes) {
  if (family == nullptr) return;
  if (!family->inside.empty())
    add_scope(find_save_family(family->inside), fmt::format("{}{}", prefix, family->inside_prefix),
              scopes);
  scopes.push_back({family, std::move(prefix)});
}

const SaveFamily* family_of_part(const std::string& model_type, const Place& place) {
  const SaveFamily* family = find_save_family(fmt::format("{}{}", model_type, place.made_as));
  return family != nullptr ? family : find_save_family(model_type);
}

/// The families of a model: of the models inside first, as saving undoes loading.
std::vector<Scope> scopes_of(const ModelConfig& config) {
  const SaveFamily* family =
      config.architectures.empty() ? nullptr : find_save_family(config.architectures[0]);
  if (family == nullptr) family = find_save_family(config.model_type);
  std::vector<Scope> scopes;
  for (const auto& [member, model_type] : config.parts)
    for (const Place& place : kPlaces)
      if (place.member == member)
        if (const SaveFamily* part = family_of_part(model_type, place); part != family)
          add_scope(part, std::string(place.prefix), scopes);
  add_scope(family, {}, scopes);
  return scopes;
}

}  // namespace

Result<SavedForm> saved_form(const ModelConfig* config, std::span<const HeldTensor> held) {
  SavedForm form;
  std::vector<Scope> scopes = config != nullptr ? scopes_of(*config) : std::vector<Scope>();
  for (const Scope& scope : scopes)
    if (!scope.family->not_done.empty()) {
      form.warnings.push_back(fmt::format(
          "transformers saves models of type '{}' in another form than it holds them ({}), which "
          "is not done here: tensors and names are written as they are",
          scope.family->name, scope.family->not_done));
      return form;
    }
  const bool changes = std::any_of(scopes.begin(), scopes.end(), [](const Scope& scope) {
    return !scope.family->conversions.empty() || !scope.family->renames.empty();
  });
  std::vector<std::size_t> order(held.size());
  std::iota(order.begin(), order.end(), 0);
  if (changes)
    std::stable_sort(order.begin(), order.end(), [held](std::size_t a, std::size_t b) {
      return natural_less(held[a].name, held[b].name);
    });
  Saver saver(std::move(scopes), held);
  for (const std::size_t index : order) saver.add(index);
  saver.tell(config != nullptr ? config->model_type : std::string(), form);
  if (changes) {
    SHARDKIT_ASSIGN(form.tensors, std::move(saver).finish());
  }
  return form;
}

}  // namespace shardkit::hf
