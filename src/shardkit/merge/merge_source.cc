#include "shardkit/merge/merge_source.h"

#include <fmt/format.h>

#include <utility>

#include "shardkit/checkpoint/open.h"
#include "shardkit/io/equal_files.h"
#include "shardkit/io/path.h"
#include "shardkit/merge/base_model.h"
#include "shardkit/merge/manifest.h"

namespace shardkit {
namespace {

/// Hosts of one run write one config.json, if more than one of them does.
Status check_other_configs(FileSystem& fs, const CheckpointFolder& checkpoint) {
  if (!checkpoint.hf_folder) return {};
  const std::string first = join_path(*checkpoint.hf_folder, "config.json");
  for (const std::string& folder : checkpoint.other_hf_folders) {
    const std::string other = join_path(folder, "config.json");
    if (!fs.info(first).ok() || !fs.info(other).ok()) continue;
    SHARDKIT_ASSIGN(const bool equal, files_are_equal(fs, first, other));
    if (!equal)
      return Error(ErrorCode::kIncomplete,
                   "two folders hold different configs (--hf-model-config-path says which)")
          .in_file(other)
          .expected(fmt::format("the bytes of '{}'", first));
  }
  return {};
}

}  // namespace

Result<MergeSource> open_merge_source(FileSystem& fs, CheckpointFolder checkpoint,
                                      const std::string& hf_folder, PlainTensors plain,
                                      const std::string& base_model_dir) {
  MergeSource source;
  source.checkpoint = std::move(checkpoint);
  source.hf_folder = hf_folder.empty() ? source.checkpoint.hf_folder : std::optional(hf_folder);
  if (!source.hf_folder && !base_model_dir.empty()) source.hf_folder = base_model_dir;
  if (hf_folder.empty()) SHARDKIT_TRY(check_other_configs(fs, source.checkpoint));
  if (source.hf_folder) {
    SHARDKIT_ASSIGN(source.sidecars, hf::list_sidecars(fs, *source.hf_folder));
    // The manifest of an earlier merge speaks of other weights; with an adapter_config.json beside
    // them, transformers takes a model for an adapter.
    std::erase_if(source.sidecars, [](const hf::SidecarFile& file) {
      return file.path == kManifestName || base_name(file.path) == "adapter_config.json";
    });
    SHARDKIT_ASSIGN(source.config, hf::read_config(fs, *source.hf_folder));
  }
  SHARDKIT_ASSIGN(Catalog catalog, open_checkpoint(fs, source.checkpoint, plain));
  if (!base_model_dir.empty() && holds_adapter_alone(catalog)) {
    SHARDKIT_TRY(add_base_model(fs, base_model_dir, catalog));
    source.base_folder = base_model_dir;
  }
  source.catalog = std::make_shared<const Catalog>(std::move(catalog));
  return source;
}

}  // namespace shardkit
