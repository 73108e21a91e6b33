// Tells by order and shapes which parameter of a module an adapter is of.
#include "shardkit/merge/lora_parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace shardkit {
namespace {

constexpr std::string_view kWrapped = ".base_layer";

/// How often a module is wrapped further outside.
std::size_t depth_of(std::string_view name) {
  std::size_t depth = 0;
  for (; name.ends_with(kWrapped); name.remove_suffix(kWrapped.size())) ++depth;
  return depth;
}

std::string without_wrappers(std::string_view name) {
  return std::string(name.substr(0, name.size() - depth_of(name) * kWrapped.size()));
}

/// A parameter of a module that may have an adapter.
struct Parameter {
  std::string name;  // below the module
  const Dims* shape = nullptr;
};

/// A module and the adapters that wrap it, the inner first.
struct Group {
  std::string module;
  std::vector<LoraModule*> wrappers;
  std::vector<Parameter> parameters;
};

bool is_targeted(const hf::LoraSettings& settings, const std::string& full_name) {
  return std::any_of(
      settings.target_parameters.begin(), settings.target_parameters.end(),
      [&full_name](const std::string& target) { return hf::names_parameter(target, full_name); });
}

/// How an adapter fits a parameter.
struct Fit {
  std::int64_t rank = 0;
  std::int64_t experts = 0;
  bool straight = false;  // held as out x in
  bool turned = false;    // held as in x out
};

std::optional<Fit> fit(const Catalog& catalog, const LoraModule& wrapper, const Dims& shape) {
  const Dims& a = catalog.tensors[wrapper.a].shape;
  const Dims& b = catalog.tensors[wrapper.b].shape;
  if (wrapper.embedding || a.size() != 2 || b.size() != 2) return std::nullopt;
  Fit found;
  found.experts = shape.size() == 3 ? shape[0] : 0;
  const std::int64_t experts = std::max<std::int64_t>(found.experts, 1);
  if (a[0] != b[1] || a[0] % experts != 0) return std::nullopt;
  found.rank = a[0] / experts;
  const std::int64_t rows = shape[shape.size() - 2], columns = shape[shape.size() - 1];
  found.straight = rows == b[0] && columns == a[1];
  // get_delta_weight turns no matrix, and no single expert.
  found.turned = experts > 1 && rows == a[1] && columns == b[0];
  if (found.rank == 0 || (!found.straight && !found.turned)) return std::nullopt;
  return found;
}

Error untold(const Catalog& catalog, const Group& group, std::string what) {
  std::vector<std::string> parameters, adapters;
  for (const Parameter& parameter : group.parameters)
    parameters.push_back(parameter.name + " " + to_string(*parameter.shape));
  for (const LoraModule* wrapper : group.wrappers)
    adapters.push_back(fmt::format("A {}, B {}", to_string(catalog.tensors[wrapper->a].shape),
                                   to_string(catalog.tensors[wrapper->b].shape)));
  return Error(ErrorCode::kIncomplete, std::move(what))
      .of_tensor(group.module)
      .expected(fmt::format("{}", fmt::join(parameters, "; ")))
      .found(fmt::format("{}", fmt::join(adapters, "; ")));
}

/// All parameters of a module are held the same way: what one tells counts for square ones, too.
Status set_orientation(const Catalog& catalog, Group& group, const std::vector<Fit>& fits) {
  const bool straight = std::any_of(fits.begin(), fits.end(),
                                    [](const Fit& f) { return f.experts > 1 && !f.turned; });
  const bool turned = std::any_of(fits.begin(), fits.end(),
                                  [](const Fit& f) { return f.experts > 1 && !f.straight; });
  if (straight && turned)
    return untold(catalog, group,
                  "by their shapes, some experts of the module are stored as out x in, others as "
                  "in x out");
  for (std::size_t i = 0; i < fits.size(); ++i) {
    if (fits[i].experts <= 1)
      group.wrappers[i]->transposed = false;
    else if (straight || turned)
      group.wrappers[i]->transposed = turned;
  }
  return {};
}

/// The parameters that fit an adapter, rank included.
Result<std::vector<std::size_t>> fitting(const Catalog& catalog, const hf::LoraSettings& settings,
                                         const Group& group, const LoraModule& wrapper) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    const auto fitted = fit(catalog, wrapper, *group.parameters[i].shape);
    if (!fitted) continue;
    SHARDKIT_ASSIGN(const auto rank,
                    hf::rank_of(settings, group.module + "." + group.parameters[i].name));
    if (!rank || *rank == fitted->rank) found.push_back(i);
  }
  return found;
}

/// For each adapter the number of its parameter.
Result<std::vector<std::size_t>> choose(const Catalog& catalog, const hf::LoraSettings& settings,
                                        const Group& group, bool in_order) {
  const bool named = !settings.target_parameters.empty();
  if (named && group.parameters.size() != group.wrappers.size())
    return untold(catalog, group,
                  "there are not as many adapters as parameters that adapter_config.json names");
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < group.wrappers.size(); ++i) {
    SHARDKIT_ASSIGN(std::vector<std::size_t> possible,
                    fitting(catalog, settings, group, *group.wrappers[i]));
    if (named && in_order) std::erase_if(possible, [i](std::size_t p) { return p != i; });
    if (possible.empty())
      return untold(catalog, group, "an adapter fits no parameter of its module");
    if (possible.size() > 1 || std::find(chosen.begin(), chosen.end(), possible[0]) != chosen.end())
      return untold(catalog, group,
                    "which parameter an adapter is of cannot be told by shapes; target_parameters "
                    "of an adapter_config.json beside the shards would tell it");
    chosen.push_back(possible[0]);
  }
  return chosen;
}

Status settle(const MergeSource& source, const hf::LoraSettings& settings, Group& group) {
  const Catalog& catalog = *source.catalog;
  std::stable_sort(group.wrappers.begin(), group.wrappers.end(),
                   [](const LoraModule* x, const LoraModule* y) {
                     return depth_of(x->name) > depth_of(y->name);
                   });
  // The tensors of a base model come by name, not as the module has them.
  SHARDKIT_ASSIGN(const std::vector<std::size_t> chosen,
                  choose(catalog, settings, group, !source.base_folder));
  std::vector<Fit> fits;
  for (std::size_t i = 0; i < group.wrappers.size(); ++i) {
    const Parameter& parameter = group.parameters[chosen[i]];
    LoraModule& wrapper = *group.wrappers[i];
    fits.push_back(*fit(catalog, wrapper, *parameter.shape));
    wrapper.name = group.module;
    wrapper.parameter = parameter.name;
    wrapper.experts = fits.back().experts;
    wrapper.rank = fits.back().rank;
  }
  return set_orientation(catalog, group, fits);
}

/// Of an adapter of a whole module, or of any without base weights: the files say what can be
/// known.
Status take_from_files(const hf::LoraSettings& settings, Group& group) {
  for (LoraModule* wrapper : group.wrappers) {
    if (!settings.text && depth_of(wrapper->name) > 0)
      return Error(ErrorCode::kIncomplete,
                   "which parameter an adapter is of cannot be told without the base weights and "
                   "without an adapter_config.json")
          .of_tensor(wrapper->name);
    wrapper->name = group.module;
    SHARDKIT_ASSIGN(const auto rank, hf::rank_of(settings, wrapper->name));
    if (!settings.target_parameters.empty() && rank && wrapper->rank % *rank == 0)
      wrapper->rank = *rank;
  }
  return {};
}

/// Whether the adapters of a module are of parameters, and which these may be.
bool has_adapters_of_parameters(const hf::LoraSettings& settings, Group& group) {
  const auto targeted = [&](const Parameter& parameter) {
    return is_targeted(settings, group.module + "." + parameter.name);
  };
  if (group.parameters.empty()) return false;
  const bool wrapped_twice = depth_of(group.wrappers[0]->name) > 0 || group.wrappers.size() > 1;
  if (!settings.target_parameters.empty()) {
    std::erase_if(group.parameters, std::not_fn(targeted));
    return wrapped_twice || !group.parameters.empty();
  }
  const bool has_weight =
      std::any_of(group.parameters.begin(), group.parameters.end(),
                  [](const Parameter& parameter) { return parameter.name == "weight"; });
  const bool has_stack =
      std::any_of(group.parameters.begin(), group.parameters.end(),
                  [](const Parameter& parameter) { return parameter.shape->size() == 3; });
  return wrapped_twice || (!has_weight && has_stack);
}

}  // namespace

Status find_parameters(const MergeSource& source, const std::vector<hf::LoraName>& names,
                       LoraAdapter& adapter) {
  std::map<std::string, Group, std::less<>> groups;
  for (LoraModule& module : adapter.modules) {
    Group& group = groups[without_wrappers(module.name)];
    group.module = without_wrappers(module.name);
    group.wrappers.push_back(&module);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string_view name = names[i].model_name;
    const Dims& shape = source.catalog->tensors[i].shape;
    const std::size_t dot = name.rfind('.');
    if (names[i].role != hf::LoraRole::kModel || dot == name.npos) continue;
    const auto group = groups.find(name.substr(0, dot));
    if (group != groups.end() && (shape.size() == 2 || shape.size() == 3))
      group->second.parameters.push_back({std::string(name.substr(dot + 1)), &shape});
  }
  for (auto& [module, group] : groups) {
    if (has_adapters_of_parameters(adapter.settings, group))
      SHARDKIT_TRY(settle(source, adapter.settings, group));
    else
      SHARDKIT_TRY(take_from_files(adapter.settings, group));
  }
  return {};
}

}  // namespace shardkit
