// Reads all files of a folder, for tests of what a run left there.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "shardkit/testing/temp_dir.h"

namespace shardkit::testing {

/// Content by path below the folder; empty where there is no folder.
inline std::map<std::string, std::string> read_folder(const std::string& folder) {
  std::map<std::string, std::string> content;
  if (!std::filesystem::exists(folder)) return content;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      content[std::filesystem::relative(entry.path(), folder).string()] =
          read_file(entry.path().string());
  return content;
}

}  // namespace shardkit::testing
