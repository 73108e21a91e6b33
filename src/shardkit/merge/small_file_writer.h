// SmallFileWriter: sidecars, index and manifest into a stage, hashed on the way.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/io/staged_folder.h"
#include "shardkit/merge/manifest.h"

namespace shardkit {

class SmallFileWriter {
 public:
  /// @param files  gets an entry for each file that is written; outlives this, as `stage` does
  SmallFileWriter(FileSystem& fs, StagedFolder& stage, std::vector<ManifestFile>& files)
      : fs_(fs), stage_(stage), files_(files) {}

  /// @error kIo
  Status write(std::string_view name, std::string_view text);
  /// Byte for byte, in blocks. @error as FileSystem::open, kIo
  Status copy(const std::string& from, std::string_view name);

 private:
  FileSystem& fs_;
  StagedFolder& stage_;
  std::vector<ManifestFile>& files_;
};

}  // namespace shardkit
