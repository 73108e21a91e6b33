#include "shardkit/checkpoint/open.h"

#include <fmt/format.h>

#include <utility>

#include "shardkit/io/path.h"
#include "shardkit/torch_pt/reader.h"

namespace shardkit {

namespace {

/// A rank's file, read, and as it was before it was read: a change meanwhile shows later.
Result<std::pair<PtFile, SourceFile>> read_rank(FileSystem& fs, const std::string& path) {
  SHARDKIT_ASSIGN(const FileInfo info, fs.info(path));
  SHARDKIT_ASSIGN(PtFile file, read_pt(fs, path));
  SourceFile source{path, info.bytes, info.modified_ns, file.directory_crc};
  return std::pair(std::move(file), std::move(source));
}

}  // namespace

Result<Catalog> open_checkpoint(FileSystem& fs, const CheckpointFolder& folder,
                                PlainTensors plain) {
  CatalogBuilder builder(folder.world_size);
  std::vector<SourceFile> sources;
  std::optional<Error> first_error;
  std::string others;
  for (std::int64_t rank = 0; rank < folder.world_size; ++rank) {
    const std::string& path = folder.rank_files[static_cast<std::size_t>(rank)];
    auto file = read_rank(fs, path);
    if (!file.ok()) {
      if (first_error) {
        others += fmt::format("; also '{}': {}", base_name(path), file.error().what());
      } else {
        first_error = std::move(file).error();
      }
      continue;
    }
    // After an error the rest is still read, so that one run names every bad file.
    if (first_error) continue;
    SHARDKIT_TRY(builder.add(rank, path, file->first.root));
    sources.push_back(std::move(file->second));
  }
  if (first_error) {
    if (others.empty()) return *std::move(first_error);
    return Error(first_error->code(), first_error->message() + others);
  }
  SHARDKIT_ASSIGN(Catalog catalog, std::move(builder).finish(plain));
  catalog.files = std::move(sources);
  return catalog;
}

}  // namespace shardkit
