// The protocol of docs/publish.md; the numbers of its steps stand here in brackets.
#include "shardkit/io/staged_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <set>
#include <utility>

#include "shardkit/io/file_tree.h"
#include "shardkit/io/path.h"
#include "shardkit/io/published_files.h"

namespace shardkit {
namespace {

constexpr std::string_view kStageInside = ".shardkit-stage";
constexpr std::string_view kLockInside = ".shardkit-lock";
constexpr std::string_view kContent = "content";
// Control files.
constexpr std::string_view kIdentity = "identity";
constexpr std::string_view kRenaming = "renaming";
constexpr std::string_view kPublishing = "publishing";
constexpr std::uint64_t kControlLimit = 64 << 20;

std::string beside(const std::string& target, std::string_view kind) {
  return join_path(parent_path(target), fmt::format(".{}.shardkit-{}", base_name(target), kind));
}

/// Names at the top of a target that are no content of it.
const std::vector<std::string>& hidden_names() {
  static const std::vector<std::string> names = {std::string(kStageInside),
                                                 std::string(kLockInside), "lost+found"};
  return names;
}

std::string holder_line() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> time{};
  std::strftime(time.data(), time.size(), "%Y-%m-%d %H:%M:%S UTC", &utc);
  return fmt::format("process {} on {} since {}", ::getpid(), host.data(), time.data());
}

Status check_is_not_root(const std::string& target) {
  if (target != "/") return {};
  return Error(ErrorCode::kInvalidArgument, "the target cannot be the root folder");
}

Status check_is_folder(FileSystem& fs, const std::string& target, ExistingTarget existing) {
  SHARDKIT_TRY(check_is_not_root(target));
  const auto info = fs.info(target);
  if (!info.ok())
    return info.error().code() == ErrorCode::kNotFound ? Status() : Status(info.error());
  if (info->kind != FileKind::kDirectory)
    return Error(ErrorCode::kInvalidArgument, "the target is a file, not a folder").in_file(target);
  if (existing == ExistingTarget::kReplace && is_within(resolved_path("."), target))
    return Error(ErrorCode::kInvalidArgument,
                 "refusing to replace the current folder, or one that holds it")
        .in_file(target);
  return {};
}

/// What the target holds; nothing if it is not there.
Result<std::vector<std::string>> content_of(FileSystem& fs, const std::string& target) {
  std::vector<std::string> names;
  if (const auto info = fs.info(target); !info.ok()) {
    if (info.error().code() == ErrorCode::kNotFound) return names;
    return info.error();
  }
  SHARDKIT_ASSIGN(const auto entries, fs.list(target));
  const auto& hidden = hidden_names();
  for (const DirectoryEntry& entry : entries)
    if (std::find(hidden.begin(), hidden.end(), entry.name) == hidden.end())
      names.push_back(entry.name);
  return names;
}

Status check_is_free(FileSystem& fs, const std::string& target, ExistingTarget existing) {
  if (existing == ExistingTarget::kReplace) return {};
  SHARDKIT_ASSIGN(const auto names, content_of(fs, target));
  if (names.empty()) return {};
  return Error(ErrorCode::kInvalidArgument,
               "the target folder is not empty; --overwrite replaces it whole")
      .in_file(target)
      .found(fmt::format("{} entries, '{}' among them", names.size(), names.front()));
}

bool may_not_write(const Error& error) {
  const int number = error.system_number().value_or(0);
  return number == EACCES || number == EPERM || number == EROFS;
}

/// Renames a file over another, also where the file system refuses that.
Status rename_over(FileSystem& fs, const std::string& from, const std::string& to) {
  if (fs.rename(from, to).ok()) return {};
  SHARDKIT_TRY(fs.remove_all(to));
  return fs.rename(from, to);
}

/// Renames a folder over an empty one, also where the file system refuses that.
Status rename_over_empty(FileSystem& fs, const std::string& from, const std::string& to) {
  Status renamed = fs.rename(from, to);
  const auto entries = fs.list(to);
  if (renamed.ok() || !entries.ok() || !entries->empty()) return renamed;
  SHARDKIT_TRY(fs.remove_all(to));
  return fs.rename(from, to);
}

}  // namespace

Status StagedFolder::check(FileSystem& fs, const std::string& target, ExistingTarget existing) {
  const std::string resolved = resolved_path(target);
  SHARDKIT_TRY(check_is_folder(fs, resolved, existing));
  // A publication that was cut short has filled the target; only create() can tell. It also takes
  // the lock of a dead process over, and so removes it.
  for (const std::string& left :
       {join_path(resolved, kStageInside), join_path(resolved, kLockInside),
        beside(resolved, "stage"), beside(resolved, "lock")})
    if (fs.info(left).ok()) return {};
  return check_is_free(fs, resolved, existing);
}

Result<StagedFolder> StagedFolder::create(FileSystem& fs, const std::string& target,
                                          StageOptions options) {
  StagedFolder stage(fs, resolved_path(target), std::move(options));
  SHARDKIT_TRY(check_is_folder(fs, stage.target_, stage.options_.existing));
  SHARDKIT_TRY(stage.take_place());       // [1]
  SHARDKIT_TRY(stage.take_up_or_make());  // [2]
  // Later than the stage is looked at: a publication that was cut short has filled the target.
  if (stage.found_ != Found::kPublishing && stage.found_ != Found::kPublished)
    SHARDKIT_TRY(check_is_free(fs, stage.target_, stage.options_.existing));
  return stage;
}

Status StagedFolder::discard(FileSystem& fs, const std::string& target) {
  StagedFolder stage(fs, resolved_path(target), {});
  SHARDKIT_TRY(check_is_not_root(stage.target_));
  if (const auto parent = fs.info(parent_path(stage.target_)); !parent.ok())
    return parent.error().code() == ErrorCode::kNotFound ? Status() : Status(parent.error());
  SHARDKIT_TRY(stage.take_place());
  return fs.info(stage.stage_).ok() ? stage.discard_found() : Status();
}

Status StagedFolder::take_place() {
  const std::string parent = parent_path(target_);
  const auto info = fs_->info(target_);
  if (!info.ok()) SHARDKIT_TRY(make_directories(*fs_, parent, durability()));
  SHARDKIT_ASSIGN(const FileInfo above, fs_->info(parent));
  inside_ = info.ok() && info->device != above.device;
  if (!inside_) {
    auto lock = fs_->lock(beside(target_, "lock"), holder_line());
    if (lock.ok()) {
      lock_ = *std::move(lock);
      stage_ = beside(target_, "stage");
      return {};
    }
    if (!info.ok() || !may_not_write(lock.error())) return std::move(lock).error();
    inside_ = true;
  }
  SHARDKIT_ASSIGN(lock_, fs_->lock(join_path(target_, kLockInside), holder_line()));
  stage_ = join_path(target_, kStageInside);
  return {};
}

Status StagedFolder::take_up_or_make() {
  if (fs_->info(stage_).ok()) {
    SHARDKIT_ASSIGN(found_, recognize());
    keep_stage_ = found_ == Found::kPublishing || found_ == Found::kPublished;
    if (found_ == Found::kContent) return fs_->remove_all(control_path(kRenaming));
    if (found_ != Found::kDiscarded) return {};
    keep_stage_ = true;
    SHARDKIT_TRY(discard_found());
  }
  SHARDKIT_TRY(fs_->make_directory(stage_));
  keep_stage_ = false;
  SHARDKIT_TRY(fs_->make_directory(join_path(stage_, kContent)));
  return write_control(kIdentity, options_.identity);
}

Result<StagedFolder::Found> StagedFolder::recognize() const {
  SHARDKIT_ASSIGN(const auto identity, read_control(kIdentity));
  if (identity != options_.identity) return Found::kDiscarded;
  SHARDKIT_ASSIGN(const auto publishing, read_control(kPublishing));
  // A record that was cut short was never acted upon.
  if (publishing && PublishedFiles::from_text(*publishing).ok()) return Found::kPublishing;
  SHARDKIT_ASSIGN(const auto renaming, read_control(kRenaming));
  if (!renaming || !renaming->ends_with('\n')) return Found::kContent;
  const auto target = folder_mark(target_);
  if (target.ok() && *target == *renaming) return Found::kPublished;
  const auto content = folder_mark(join_path(stage_, kContent));
  return content.ok() && *content == *renaming ? Found::kContent : Found::kDiscarded;
}

Status StagedFolder::discard_found() {
  SHARDKIT_ASSIGN(const auto publishing, read_control(kPublishing));
  // Nobody shall take up what is half gone.
  SHARDKIT_TRY(fs_->remove_all(control_path(kIdentity)));
  if (durability() == Durability::kSynced) SHARDKIT_TRY(fs_->sync_directory(stage_));
  const auto record = PublishedFiles::from_text(publishing.value_or(""));
  // With the key file in place the publication was complete: that model stays.
  if (record.ok() && !record->fresh.empty() && fs_->info(content_path(record->fresh.back())).ok()) {
    for (const std::string& file : record->fresh) {
      const std::string path = join_path(target_, file);
      const bool moved = !fs_->info(content_path(file)).ok();
      if (moved) SHARDKIT_TRY(fs_->remove_all(path));
      SHARDKIT_TRY(remove_empty_folders(*fs_, parent_path(path), target_));
    }
  }
  return remove_stage();
}

/// First what says that the rest is whole.
Status StagedFolder::remove_stage() {
  SHARDKIT_TRY(fs_->remove_all(control_path(kIdentity)));
  SHARDKIT_TRY(fs_->remove_all(control_path(kPublishing)));
  return fs_->remove_all(stage_);
}

StagedFolder::StagedFolder(StagedFolder&& other) noexcept
    : fs_(other.fs_),
      target_(std::move(other.target_)),
      options_(std::move(other.options_)),
      stage_(std::exchange(other.stage_, {})),
      inside_(other.inside_),
      keep_stage_(other.keep_stage_),
      found_(other.found_),
      lock_(std::move(other.lock_)) {}

StagedFolder::~StagedFolder() {
  // Nobody is left to tell; what cannot be removed stays hidden, and the next run removes it.
  if (!stage_.empty() && !keep_stage_) [[maybe_unused]]
    const Status ignored = remove_stage();
}

std::string StagedFolder::content_path(std::string_view relative) const {
  return join_path(join_path(stage_, kContent), relative);
}

std::string StagedFolder::control_path(std::string_view name) const {
  return join_path(stage_, name);
}

/// Knows a folder again under another name, if nothing was added to it or removed. A number alone
/// could be given to a new folder.
Result<std::string> StagedFolder::folder_mark(const std::string& folder) const {
  SHARDKIT_ASSIGN(const FileInfo info, fs_->info(folder));
  return fmt::format("{} {}\n", info.inode, info.modified_ns);
}

/// Nothing if there is no such file.
Result<std::optional<std::string>> StagedFolder::read_control(std::string_view name) const {
  auto text = read_whole_file(*fs_, control_path(name), kControlLimit);
  if (text.ok()) return std::optional(*std::move(text));
  if (text.error().code() == ErrorCode::kNotFound) return std::optional<std::string>();
  return std::move(text).error();
}

Status StagedFolder::write_control(std::string_view name, std::string_view text) {
  const std::string path = control_path(name);
  SHARDKIT_TRY(fs_->remove_all(path));
  SHARDKIT_ASSIGN(const auto file, fs_->create(path));
  SHARDKIT_TRY(file->write_at(0, std::as_bytes(std::span(text))));
  SHARDKIT_TRY(finish_file(*file));
  return durability() == Durability::kSynced ? fs_->sync_directory(stage_) : Status();
}

Result<std::unique_ptr<WritableFile>> StagedFolder::create_file(std::string_view relative) {
  const std::string path = content_path(relative);
  // publish() syncs the folders of the content, all together [7].
  SHARDKIT_TRY(make_directories(*fs_, parent_path(path), Durability::kUnsynced));
  return fs_->create(path);
}

Status StagedFolder::finish_file(WritableFile& file) const {
  if (durability() == Durability::kSynced) SHARDKIT_TRY(file.sync());
  return file.close();
}

Status StagedFolder::keep_only(const std::vector<std::string>& files) {
  if (!fs_->info(join_path(stage_, kContent)).ok()) return {};
  SHARDKIT_ASSIGN(const auto present, list_files(*fs_, join_path(stage_, kContent)));
  for (const std::string& file : present)
    if (std::find(files.begin(), files.end(), file) == files.end())
      SHARDKIT_TRY(fs_->remove_all(content_path(file)));
  return {};
}

Status StagedFolder::publish() {
  const bool synced = durability() == Durability::kSynced;
  if (found_ != Found::kPublishing && found_ != Found::kPublished) {
    if (synced) SHARDKIT_TRY(sync_folders(*fs_, join_path(stage_, kContent)));  // [7]
    // Looked at again: the target may have changed since the stage was made.
    SHARDKIT_TRY(check_is_free(*fs_, target_, options_.existing));
  }
  bool at_once = found_ == Found::kPublished;
  if (!at_once && !inside_ && found_ != Found::kPublishing) {
    SHARDKIT_ASSIGN(at_once, publish_at_once());
  }
  if (!at_once) SHARDKIT_TRY(publish_by_files());
  if (at_once && synced) SHARDKIT_TRY(fs_->sync_directory(parent_path(target_)));
  // The model is there. What is left of the stage is nobody's loss.
  [[maybe_unused]] const Status ignored = remove_stage();
  stage_.clear();
  lock_.reset();  // [9]
  return {};
}

/// @return false: the file system cannot, and nothing happened
Result<bool> StagedFolder::publish_at_once() {
  const std::string content = join_path(stage_, kContent);
  SHARDKIT_ASSIGN(const std::string mark, folder_mark(content));
  SHARDKIT_TRY(write_control(kRenaming, mark));  // [A1]
  SHARDKIT_ASSIGN(const auto held, content_of(*fs_, target_));
  if (held.empty()) {
    SHARDKIT_TRY(rename_over_empty(*fs_, content, target_));
  } else {
    const Status exchanged = fs_->exchange(content, target_);
    if (!exchanged.ok() && exchanged.error().code() == ErrorCode::kUnsupported) {
      SHARDKIT_TRY(fs_->remove_all(control_path(kRenaming)));
      return false;
    }
    SHARDKIT_TRY(exchanged);
  }
  keep_stage_ = true;
  return true;
}

Status StagedFolder::publish_by_files() {
  const bool synced = durability() == Durability::kSynced;
  PublishedFiles files;
  if (found_ == Found::kPublishing) {
    SHARDKIT_ASSIGN(const std::string text,
                    read_whole_file(*fs_, control_path(kPublishing), kControlLimit));
    SHARDKIT_ASSIGN(files, PublishedFiles::from_text(text));
  } else {
    SHARDKIT_ASSIGN(files.fresh, list_files(*fs_, join_path(stage_, kContent)));
    for (const std::string& file : files.fresh)
      if (file.find('\n') != std::string::npos)
        return Error(ErrorCode::kUnsupported,
                     "a file with a line break in its name cannot be published here")
            .in_file(file);
    const auto key = std::find(files.fresh.begin(), files.fresh.end(), options_.key_file);
    if (key != files.fresh.end()) std::rotate(key, key + 1, files.fresh.end());
    SHARDKIT_ASSIGN(const auto held, list_files(*fs_, target_, hidden_names()));
    for (const std::string& file : held)
      if (std::find(files.fresh.begin(), files.fresh.end(), file) == files.fresh.end())
        files.stale.push_back(file);
    SHARDKIT_TRY(write_control(kPublishing, files.to_text()));  // [B1]
    keep_stage_ = true;
  }
  for (const std::string& key : options_.old_key_files)  // [B2]
    if (found_ != Found::kPublishing || fs_->info(content_path(options_.key_file)).ok())
      SHARDKIT_TRY(fs_->remove_all(join_path(target_, key)));
  if (synced) SHARDKIT_TRY(fs_->sync_directory(target_));
  // Old files go first: a file or a link may stand where a folder is needed. In a publication that
  // is ended by another run it may be that folder by now.
  const auto is_folder_of_moved = [&](const std::string& stale) {
    return std::any_of(files.fresh.begin(), files.fresh.end(), [&](const std::string& file) {
      return is_within(file, stale) && !fs_->info(content_path(file)).ok();
    });
  };
  for (const std::string& file : files.stale) {  // [B3]
    if (is_folder_of_moved(file)) continue;
    const std::string path = join_path(target_, file);
    SHARDKIT_TRY(fs_->remove_all(path));
    SHARDKIT_TRY(remove_empty_folders(*fs_, parent_path(path), target_));
  }
  for (const std::string& file : files.fresh) {  // [B4]
    if (file == files.fresh.back() || !fs_->info(content_path(file)).ok()) continue;
    const std::string to = join_path(target_, file);
    SHARDKIT_TRY(make_directories(*fs_, parent_path(to), Durability::kUnsynced));  // see [B5]
    SHARDKIT_TRY(rename_over(*fs_, content_path(file), to));
  }
  if (synced) {  // [B5]
    std::set<std::string> folders = {target_};
    for (const std::string& file : files.fresh)
      for (std::string folder = parent_path(file); !folder.empty(); folder = parent_path(folder))
        folders.insert(join_path(target_, folder));
    for (const std::string& folder : folders) SHARDKIT_TRY(fs_->sync_directory(folder));
  }
  const std::string& key = files.fresh.back();
  if (fs_->info(content_path(key)).ok())
    SHARDKIT_TRY(rename_over(*fs_, content_path(key), join_path(target_, key)));
  return synced ? fs_->sync_directory(target_) : Status();
}

}  // namespace shardkit
