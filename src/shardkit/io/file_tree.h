// Folders with all they hold: listing the files below one, making the folders above one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/io/durability.h"
#include "shardkit/io/file_system.h"

namespace shardkit {

/// Makes a folder and those above it that are missing.
/// @param durability  kSynced: each that is made has its name on the device before this returns
/// @error kInvalidArgument a file stands where a folder is needed; kIo
Status make_directories(FileSystem& fs, const std::string& path, Durability durability);

/// Makes one folder that nobody but its owner may look into, unless it is there.
/// @error kIo, also where what is there is another user's, open to others, a link or no folder
Status make_private_directory(const std::string& path);

/// The files below a folder, as paths relative to it, sorted. Links count as files and are not
/// followed; names in `but` at the top are left out. @error as FileSystem::list
Result<std::vector<std::string>> list_files(FileSystem& fs, const std::string& folder,
                                            const std::vector<std::string>& but = {});

/// Makes the names in a folder and in those below it durable. @error kIo
Status sync_folders(FileSystem& fs, const std::string& folder);

/// Removes folders that hold nothing, from `folder` upwards, but never `top`. @error kIo
Status remove_empty_folders(FileSystem& fs, std::string folder, std::string_view top);

}  // namespace shardkit
