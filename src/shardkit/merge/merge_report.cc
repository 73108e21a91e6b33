#include "shardkit/merge/merge_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "shardkit/merge/device_mesh_info.h"
#include "shardkit/merge/manifest.h"
#include "shardkit/safetensors/sharded_index.h"

namespace shardkit {
namespace {

bool has_sidecar(const MergeSource& source, std::string_view name) {
  return std::any_of(source.sidecars.begin(), source.sidecars.end(),
                     [name](const hf::SidecarFile& file) { return file.path == name; });
}

bool has_tokenizer(const MergeSource& source) {
  constexpr std::array kFiles{"tokenizer.json", "tokenizer.model", "tokenizer_config.json",
                              "vocab.json",     "vocab.txt",       "spiece.model"};
  return std::any_of(kFiles.begin(), kFiles.end(),
                     [&source](std::string_view name) { return has_sidecar(source, name); });
}

/// What a loader of the result will miss, though the weights are whole.
void tell_of_config(const MergeSource& source, MergeReport& report) {
  const hf::ModelConfig& config = *source.config;
  if (config.architectures.empty())
    report.warnings.emplace_back(
        "config.json names no architectures: loaders must be told which class it is");
  for (const std::string& file : config.code_files)
    if (!has_sidecar(source, file))
      report.warnings.push_back(fmt::format(
          "config.json takes classes from '{}', which is not in '{}'", file, *source.hf_folder));
  if (!has_tokenizer(source))
    report.notes.push_back(
        fmt::format("no tokenizer in '{}': the result has none either", *source.hf_folder));
}

void warn(const MergeSource& source, MergeReport& report) {
  if (!source.hf_folder) {
    report.warnings.push_back(
        "no huggingface/ folder beside the shards: the weights are written alone, without "
        "config.json and tokenizer; --hf_model_config_path names a folder to take them from");
  } else if (!source.config) {
    report.warnings.push_back(fmt::format(
        "'{}' has no config.json: transformers cannot load the result", *source.hf_folder));
  }
  if (source.config) tell_of_config(source, report);
}

/// Tensors that a warning names.
constexpr std::size_t kNamed = 5;

}  // namespace

void report_overflows(const Catalog& catalog, const std::map<std::size_t, std::uint64_t>& values,
                      MergeReport& report) {
  if (values.empty()) return;
  std::uint64_t all = 0;
  std::string names;
  for (const auto& [tensor, count] : values) {
    const std::string& name = catalog.tensors[tensor].name;
    if (report.overflows.size() < kNamed)
      names += fmt::format("{}'{}' ({})", names.empty() ? "" : ", ", name, count);
    report.overflows.push_back({name, count});
    all += count;
  }
  if (values.size() > kNamed) names += ", ...";
  report.warnings.push_back(
      fmt::format("{} values of {} tensors are too large for float16 and became infinite: {}; "
                  "bfloat16 has room "
                  "for them, and --keep-dtype leaves tensors as stored",
                  all, values.size(), names));
}

void tell_base_model(BaseModelComparison comparison, MergeReport& report) {
  (comparison.agrees() ? report.notes : report.warnings).push_back(describe(comparison));
  report.base_model = std::move(comparison);
}

MergeReport make_merge_report(const MergeSource& source, const OutputDecision& decision) {
  MergeReport report;
  report.checkpoint = source.checkpoint.path;
  report.world_size = source.checkpoint.world_size;
  report.missing_ranks = source.catalog->missing_ranks;
  for (const DeviceMeshInfo& info : extract_device_mesh_info(*source.catalog))
    report.meshes.push_back(to_string(info));
  report.summary = decision.output.plan.summary();
  for (const PlannedFile& file : decision.output.plan.files())
    report.weights.push_back({file.name, file.bytes});
  if (decision.has_model()) {
    for (const hf::SidecarFile& file : source.sidecars) {
      report.sidecars.push_back(file.path);
      if (file.path == "config.json" && source.config)
        report.config_dtype = decision.output.config_dtype;
    }
  }
  if (decision.output.index) report.sidecars.emplace_back(safetensors::kIndexFileName);
  report.sidecars.emplace_back(kManifestName);
  if (!decision.adapter_config.empty()) report.sidecars.emplace_back(kAdapterConfigName);
  report.lora = decision.lora;
  report.dropped_ties = decision.dropped_ties;
  for (const SkippedEntry& entry : source.catalog->skipped)
    report.skipped.push_back(fmt::format("{} ({})", entry.name, entry.kind));
  report.notes = source.checkpoint.notes;
  if (source.config && source.config->has_wrapper_names)
    report.notes.push_back(fmt::format("the class in config.json becomes {}, without FSDP's name",
                                       source.config->architectures[0]));
  report.notes.insert(report.notes.end(), decision.notes.begin(), decision.notes.end());
  report.warnings = source.catalog->warnings;
  report.warnings.insert(report.warnings.end(), decision.warnings.begin(), decision.warnings.end());
  if (decision.has_model()) warn(source, report);
  return report;
}

}  // namespace shardkit
