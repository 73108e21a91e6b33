// files_are_equal(): whether two files hold the same bytes.
#pragma once

#include <string>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"

namespace shardkit {

/// Reads both to the first difference, unless they are one file or of two sizes. Memory: 2 MiB.
/// @error as FileSystem::info, open and RandomAccessFile::read_at
Result<bool> files_are_equal(FileSystem& fs, const std::string& a, const std::string& b);

}  // namespace shardkit
