#include "shardkit/io/staged_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include "shardkit/io/path.h"

namespace shardkit {
namespace {

std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status make_directories(FileSystem& fs, const std::string& path) {
  if (const auto info = fs.info(path); info.ok()) {
    if (info->kind == FileKind::kDirectory) return {};
    return Error(ErrorCode::kInvalidArgument, "a folder is needed, but a file stands there")
        .in_file(path);
  }
  if (path != "/") SHARDKIT_TRY(make_directories(fs, parent_of(path)));
  return fs.make_directory(path);
}

Status check_target(FileSystem& fs, const std::string& target, ExistingTarget existing) {
  const auto info = fs.info(target);
  if (!info.ok())
    return info.error().code() == ErrorCode::kNotFound ? Status() : Status(info.error());
  if (info->kind != FileKind::kDirectory)
    return Error(ErrorCode::kInvalidArgument, "the target is a file, not a folder").in_file(target);
  if (existing == ExistingTarget::kReplace) {
    if (is_within(resolved_path("."), target))
      return Error(ErrorCode::kInvalidArgument,
                   "refusing to replace the current folder, or one that holds it")
          .in_file(target);
    return {};
  }
  SHARDKIT_ASSIGN(const auto entries, fs.list(target));
  if (!entries.empty())
    return Error(ErrorCode::kInvalidArgument,
                 "the target folder is not empty; --overwrite replaces it whole")
        .in_file(target)
        .found(fmt::format("{} entries, '{}' among them", entries.size(), entries.front().name));
  return {};
}

}  // namespace

Status StagedFolder::check(FileSystem& fs, const std::string& target, ExistingTarget existing) {
  const std::string resolved = resolved_path(target);
  if (resolved == "/")
    return Error(ErrorCode::kInvalidArgument, "the target cannot be the root folder");
  return check_target(fs, resolved, existing);
}

Result<StagedFolder> StagedFolder::create(FileSystem& fs, const std::string& target,
                                          ExistingTarget existing, Durability durability) {
  SHARDKIT_TRY(check(fs, target, existing));
  const std::string resolved = resolved_path(target);
  const std::string parent = parent_of(resolved);
  SHARDKIT_TRY(make_directories(fs, parent));
  const std::string stage =
      join_path(parent, fmt::format(".{}.shardkit-{}", base_name(resolved), ::getpid()));
  // A stage of this process id can only be left over from a process that was killed.
  SHARDKIT_TRY(fs.remove_all(stage));
  SHARDKIT_TRY(fs.make_directory(stage));
  return StagedFolder(fs, resolved, stage, existing, durability);
}

StagedFolder::StagedFolder(StagedFolder&& other) noexcept
    : fs_(other.fs_),
      target_(std::move(other.target_)),
      stage_(std::exchange(other.stage_, {})),
      existing_(other.existing_),
      durability_(other.durability_) {}

StagedFolder::~StagedFolder() {
  // Nobody is left to tell; what cannot be removed stays hidden beside the target.
  if (!stage_.empty()) [[maybe_unused]] const Status ignored = fs_->remove_all(stage_);
}

Result<std::unique_ptr<WritableFile>> StagedFolder::create_file(std::string_view relative) {
  const std::string path = join_path(stage_, relative);
  SHARDKIT_TRY(make_directories(*fs_, parent_of(path)));
  return fs_->create(path);
}

Status StagedFolder::finish_file(WritableFile& file) const {
  if (durability_ == Durability::kSynced) SHARDKIT_TRY(file.sync());
  return file.close();
}

Status StagedFolder::publish() {
  const bool synced = durability_ == Durability::kSynced;
  if (synced) SHARDKIT_TRY(sync_folders(stage_));
  // Looked at again: the target may have changed since the stage was made.
  SHARDKIT_TRY(check_target(*fs_, target_, existing_));
  const auto info = fs_->info(target_);
  if (info.ok() && existing_ == ExistingTarget::kReplace) {
    SHARDKIT_TRY(replace_target());
  } else {
    SHARDKIT_TRY(fs_->rename(stage_, target_));
  }
  stage_.clear();
  return synced ? fs_->sync_directory(parent_of(target_)) : Status();
}

Status StagedFolder::replace_target() {
  const Status exchanged = fs_->exchange(stage_, target_);
  if (exchanged.ok()) return fs_->remove_all(stage_);
  if (exchanged.error().code() != ErrorCode::kUnsupported) return exchanged;
  const std::string aside = stage_ + ".old";
  SHARDKIT_TRY(fs_->rename(target_, aside));
  if (Status renamed = fs_->rename(stage_, target_); !renamed.ok()) {
    SHARDKIT_TRY(fs_->rename(aside, target_));
    return renamed;
  }
  return fs_->remove_all(aside);
}

Status StagedFolder::sync_folders(const std::string& folder) {
  SHARDKIT_ASSIGN(const auto entries, fs_->list(folder));
  for (const DirectoryEntry& entry : entries)
    if (entry.info.kind == FileKind::kDirectory)
      SHARDKIT_TRY(sync_folders(join_path(folder, entry.name)));
  return fs_->sync_directory(folder);
}

}  // namespace shardkit
