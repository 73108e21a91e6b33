#include "shardkit/hub/folder_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "shardkit/io/path.h"
#include "shardkit/json/utf8.h"

namespace shardkit::hub {
namespace {

// docs/publish.md
constexpr std::string_view kStage = ".shardkit-stage";
constexpr std::string_view kStageEnd = ".shardkit-stage";
constexpr std::string_view kLockEnd = ".shardkit-lock";
constexpr int kMostDepth = 100;

bool is_left_out(const std::string& name) {
  return name == ".git" || name == ".cache" || name.ends_with(kStageEnd) ||
         name.ends_with(kLockEnd);
}

bool comes_last(std::string_view path) {
  return path == "config.json" || path.ends_with(".safetensors.index.json");
}

Status add_folder(FileSystem& fs, const std::string& folder, const std::string& prefix, int depth,
                  FolderFiles& found) {
  if (depth > kMostDepth)
    return Error(ErrorCode::kLimit, "folders lie too deep inside each other")
        .in_file(folder)
        .expected(fmt::format("at most {} levels", kMostDepth));
  SHARDKIT_ASSIGN(const auto entries, fs.list(folder));
  for (const DirectoryEntry& entry : entries) {
    const std::string path = join_path(folder, entry.name);
    const std::string relative = prefix + entry.name;
    if (is_left_out(entry.name)) {
      found.left_out.push_back(relative);
    } else if (!json::is_valid_utf8(entry.name)) {
      return Error(ErrorCode::kInvalidArgument,
                   "a file's name is not UTF-8, and a Hub takes no other names")
          .in_file(path);
    } else if (entry.info.kind == FileKind::kDirectory) {
      if (entry.is_link) {
        found.left_out.push_back(relative);
      } else {
        SHARDKIT_TRY(add_folder(fs, path, relative + "/", depth + 1, found));
      }
    } else if (entry.info.kind == FileKind::kRegular) {
      found.files.push_back({relative, entry.info});
    } else if (entry.is_link) {
      return Error(ErrorCode::kIncomplete, "a link leads nowhere").in_file(path);
    } else {
      return Error(ErrorCode::kUnsupported, "not a regular file").in_file(path);
    }
  }
  return {};
}

}  // namespace

Result<FolderFiles> list_folder(FileSystem& fs, const std::string& folder) {
  if (fs.info(join_path(folder, kStage)).ok())
    return Error(ErrorCode::kIncomplete,
                 "a merge into this folder has not ended: run it again, or remove the folder")
        .in_file(folder);
  FolderFiles found;
  SHARDKIT_TRY(add_folder(fs, folder, "", 0, found));
  if (found.files.empty())
    return Error(ErrorCode::kNotFound, "the folder holds no file to upload").in_file(folder);
  std::sort(found.files.begin(), found.files.end(), [](const auto& a, const auto& b) {
    const bool a_last = comes_last(a.path), b_last = comes_last(b.path);
    return a_last != b_last ? b_last : a.path < b.path;
  });
  return found;
}

Status check_unchanged(FileSystem& fs, const std::string& folder, const FolderFile& file) {
  const std::string path = join_path(folder, file.path);
  SHARDKIT_ASSIGN(const FileInfo now, fs.info(path));
  if (now.kind == file.info.kind && now.bytes == file.info.bytes &&
      now.modified_ns == file.info.modified_ns && now.device == file.info.device &&
      now.inode == file.info.inode)
    return {};
  return Error(ErrorCode::kIo, "the file changed while it was uploaded: upload again")
      .in_file(path);
}

}  // namespace shardkit::hub
