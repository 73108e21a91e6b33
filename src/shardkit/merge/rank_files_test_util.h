// Writes small checkpoints for this room's tests.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "shardkit/io/file_system.h"
#include "shardkit/state/value.h"
#include "shardkit/torch_pt/writer.h"

namespace shardkit::testing {

/// One file a rank into `folder`, under verl's names; throws if that fails.
inline void write_ranks(const std::string& folder, const std::vector<Value>& ranks) {
  std::filesystem::create_directories(folder);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto file = posix_file_system()
                          .create(folder + "/model_world_size_" + std::to_string(ranks.size()) +
                                  "_rank_" + std::to_string(rank) + ".pt")
                          .value();
    PtWriteOptions options;
    options.rank = static_cast<std::int64_t>(rank);
    write_pt(*file, ranks[rank], options).value();
    file->close().value();
  }
}

}  // namespace shardkit::testing
