#include "shardkit/merge/merge_source.h"

#include <utility>

#include "shardkit/checkpoint/open.h"
#include "shardkit/io/path.h"
#include "shardkit/merge/base_model.h"
#include "shardkit/merge/manifest.h"

namespace shardkit {

Result<MergeSource> open_merge_source(FileSystem& fs, CheckpointFolder checkpoint,
                                      const std::string& hf_folder, PlainTensors plain,
                                      const std::string& base_model_dir) {
  MergeSource source;
  source.checkpoint = std::move(checkpoint);
  source.hf_folder = hf_folder.empty() ? source.checkpoint.hf_folder : std::optional(hf_folder);
  if (!source.hf_folder && !base_model_dir.empty()) source.hf_folder = base_model_dir;
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
