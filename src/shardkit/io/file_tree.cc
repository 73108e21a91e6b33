#include "shardkit/io/file_tree.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "shardkit/io/path.h"

namespace shardkit {
namespace {

bool is_folder(const DirectoryEntry& entry) {
  return entry.info.kind == FileKind::kDirectory && !entry.is_link;
}

Status append_files(FileSystem& fs, const std::string& folder, const std::string& prefix,
                    const std::vector<std::string>& but, std::vector<std::string>& files) {
  SHARDKIT_ASSIGN(const auto entries, fs.list(folder));
  for (const DirectoryEntry& entry : entries) {
    if (std::find(but.begin(), but.end(), entry.name) != but.end()) continue;
    if (is_folder(entry)) {
      SHARDKIT_TRY(
          append_files(fs, join_path(folder, entry.name), prefix + entry.name + "/", {}, files));
    } else {
      files.push_back(prefix + entry.name);
    }
  }
  return {};
}

}  // namespace

Status make_private_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) return {};
  const int number = errno;
  struct stat found {};
  if (number != EEXIST || ::lstat(path.c_str(), &found) != 0)
    return Error(ErrorCode::kIo,
                 "cannot make the folder: " + std::generic_category().message(number))
        .in_file(path)
        .from_system(number);
  if (S_ISDIR(found.st_mode) && found.st_uid == ::geteuid() && (found.st_mode & 077) == 0)
    return {};
  return Error(ErrorCode::kIo, "a folder of this user alone is needed, and this is none")
      .in_file(path);
}

Status make_directories(FileSystem& fs, const std::string& path, Durability durability) {
  if (const auto info = fs.info(path); info.ok()) {
    if (info->kind == FileKind::kDirectory) return {};
    return Error(ErrorCode::kInvalidArgument, "a folder is needed, but a file stands there")
        .in_file(path);
  }
  const std::string above = parent_path(path);
  const std::string parent = above.empty() ? "." : above;
  if (path != "/") SHARDKIT_TRY(make_directories(fs, parent, durability));
  if (auto status = fs.make_directory(path); !status.ok()) {
    // Another process, or rank, may have been faster.
    const auto info = fs.info(path);
    if (!info.ok() || info->kind != FileKind::kDirectory) return status;
  }
  return durability == Durability::kSynced ? fs.sync_directory(parent) : Status();
}

Result<std::vector<std::string>> list_files(FileSystem& fs, const std::string& folder,
                                            const std::vector<std::string>& but) {
  std::vector<std::string> files;
  SHARDKIT_TRY(append_files(fs, folder, "", but, files));
  return files;
}

Status sync_folders(FileSystem& fs, const std::string& folder) {
  SHARDKIT_ASSIGN(const auto entries, fs.list(folder));
  for (const DirectoryEntry& entry : entries)
    if (is_folder(entry)) SHARDKIT_TRY(sync_folders(fs, join_path(folder, entry.name)));
  return fs.sync_directory(folder);
}

Status remove_empty_folders(FileSystem& fs, std::string folder, std::string_view top) {
  while (folder != top && is_within(folder, top)) {
    const auto entries = fs.list(folder);
    if (entries.ok() && !entries->empty()) return {};
    if (entries.ok()) {
      SHARDKIT_TRY(fs.remove_all(folder));
    } else if (entries.error().code() != ErrorCode::kNotFound) {
      return {};
    }
    folder = parent_path(folder);
  }
  return {};
}

}  // namespace shardkit
