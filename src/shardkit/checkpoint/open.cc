#include "shardkit/checkpoint/open.h"

#include <fmt/format.h>

#include "shardkit/io/path.h"
#include "shardkit/torch_pt/reader.h"

namespace shardkit {

Result<Catalog> open_checkpoint(FileSystem& fs, const CheckpointFolder& folder,
                                PlainTensors plain) {
  CatalogBuilder builder(folder.world_size);
  std::optional<Error> first_error;
  std::string others;
  for (std::int64_t rank = 0; rank < folder.world_size; ++rank) {
    const std::string& path = folder.rank_files[static_cast<std::size_t>(rank)];
    auto file = read_pt(fs, path);
    if (!file.ok()) {
      if (first_error) {
        others += fmt::format("; also '{}': {}", base_name(path), file.error().what());
      } else {
        first_error = std::move(file).error();
      }
      continue;
    }
    // After an error the rest is still read, so that one run names every bad file.
    if (!first_error) SHARDKIT_TRY(builder.add(rank, path, file->root));
  }
  if (first_error) {
    if (others.empty()) return *std::move(first_error);
    return Error(first_error->code(), first_error->message() + others);
  }
  return std::move(builder).finish(plain);
}

}  // namespace shardkit
