#include "shardkit/merge/merge_source.h"

#include <utility>

#include "shardkit/checkpoint/open.h"
#include "shardkit/merge/manifest.h"

namespace shardkit {

Result<MergeSource> open_merge_source(FileSystem& fs, CheckpointFolder checkpoint,
                                      const std::string& hf_folder, PlainTensors plain) {
  MergeSource source;
  source.checkpoint = std::move(checkpoint);
  source.hf_folder = hf_folder.empty() ? source.checkpoint.hf_folder : std::optional(hf_folder);
  if (source.hf_folder) {
    SHARDKIT_ASSIGN(source.sidecars, hf::list_sidecars(fs, *source.hf_folder));
    // The manifest of an earlier merge speaks of other weights.
    std::erase_if(source.sidecars,
                  [](const hf::SidecarFile& file) { return file.path == kManifestName; });
    SHARDKIT_ASSIGN(source.config, hf::read_config(fs, *source.hf_folder));
  }
  SHARDKIT_ASSIGN(Catalog catalog, open_checkpoint(fs, source.checkpoint, plain));
  source.catalog = std::make_shared<const Catalog>(std::move(catalog));
  return source;
}

}  // namespace shardkit
