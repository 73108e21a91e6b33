#include "shardkit/merge/merge_source.h"

#include <algorithm>

#include "shardkit/checkpoint/open.h"
#include "shardkit/io/path.h"
#include "shardkit/merge/manifest.h"

namespace shardkit {
namespace {

constexpr std::uint64_t kConfigLimit = 16 << 20;
constexpr std::string_view kConfigName = "config.json";

}  // namespace

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
    const bool has_config =
        std::any_of(source.sidecars.begin(), source.sidecars.end(),
                    [](const hf::SidecarFile& file) { return file.path == kConfigName; });
    if (has_config) {
      const std::string path = join_path(*source.hf_folder, kConfigName);
      SHARDKIT_ASSIGN(std::string text, read_whole_file(fs, path, kConfigLimit));
      auto config = hf::parse_config(std::move(text));
      if (!config.ok()) return std::move(config).error().in_file(path);
      source.config = *std::move(config);
    }
  }
  SHARDKIT_ASSIGN(Catalog catalog, open_checkpoint(fs, source.checkpoint, plain));
  source.catalog = std::make_shared<const Catalog>(std::move(catalog));
  return source;
}

}  // namespace shardkit
