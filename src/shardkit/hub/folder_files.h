// The files of a folder that an upload sends, and whether they are still what they were.
#pragma once

#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"

namespace shardkit::hub {

struct FolderFile {
  std::string path;  ///< in the repository: below the folder, parts joined by '/'
  FileInfo info;     ///< when it was listed
};

struct FolderFiles {
  std::vector<FolderFile> files;
  std::vector<std::string> left_out;  ///< folders and links that an upload does not follow or send
};

/// As huggingface_hub 2.4's upload_folder() has it (hf_api.py, utils/_paths.py): all files, hidden
/// ones too, links to files as the files; never .git and .cache; no links to folders. Here those
/// are named in left_out, and what a merge is still writing, or has left, is not sent.
///
/// Sorted by path, but files without which no loader takes the folder for a model come last:
/// config.json and *.safetensors.index.json. Who looks between two commits finds no half model.
///
/// @error kNotFound no such folder, or it holds no file; kIncomplete a merge into it has not ended,
///        or a link leads nowhere; kUnsupported a file that is none (a pipe); kInvalidArgument a
///        name that is not UTF-8; kIo
Result<FolderFiles> list_folder(FileSystem& fs, const std::string& folder);

/// Compares size, time and inode with the list's. @error kIo the file changed; as FileSystem::info
Status check_unchanged(FileSystem& fs, const std::string& folder, const FolderFile& file);

}  // namespace shardkit::hub
