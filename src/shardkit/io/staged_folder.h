// StagedFolder: an output folder that appears whole under its name, or not at all.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/io/durability.h"
#include "shardkit/io/file_system.h"

namespace shardkit {

/// What to do with a target folder that holds something already.
enum class ExistingTarget {
  kRefuse,   ///< an error that names --overwrite; an empty folder is no obstacle
  kReplace,  ///< it is replaced whole when the new one is published
};

struct StageOptions {
  ExistingTarget existing = ExistingTarget::kRefuse;
  Durability durability = Durability::kSynced;
  /// Names the work: a stage that a killed process left is taken up again by the same identity
  /// alone. One line.
  std::string identity;
  /// The file without which no loader takes the folder for whole; published last.
  std::string key_file;
  /// Files that end with these names are of earlier content, and removed first.
  std::vector<std::string> old_key_files;
};

/// Files are written into a hidden folder; publish() makes them durable and lets them appear under
/// the target's name. docs/publish.md is the protocol: what is locked, what a killed process
/// leaves, and how that is taken up.
///
/// Destroying an unpublished stage removes it and frees the target. For one thread, but for
/// create_file() and reopen_file().
class StagedFolder {
 public:
  /// How the last process that had this stage left it.
  enum class Found {
    kNothing,
    kDiscarded,   ///< the stage of another command; removed
    kContent,     ///< of the same command, unfinished: files may be taken over
    kPublishing,  ///< of the same command, whole: only publish() is left to do
    kPublished,   ///< of the same command, which made the target: publish() cleans up
  };

  /// Locks the target and makes a stage, or takes one up.
  ///
  /// @param target  the folder to appear; its parent is made if need be
  /// @error kInvalidArgument the target is a file, is not empty (kRefuse), or is the current
  ///        folder or holds it (kReplace); kIo, also when another process has the lock
  static Result<StagedFolder> create(FileSystem& fs, const std::string& target,
                                     StageOptions options);

  /// The errors that create() would return for the target itself, but where a stage is there
  /// already; makes nothing.
  static Status check(FileSystem& fs, const std::string& target, ExistingTarget existing);

  /// Removes the stage and lock that a killed process left, of whatever command.
  ///
  /// The target stays. But where it is published file by file (protocol B) and that was cut short,
  /// the old content is gone already and the new files go now: no model is left. Only the same
  /// command, run again, would end it.
  ///
  /// @param target  any folder, also the current one, or none; nothing is made for it
  /// @error kInvalidArgument the root folder; kIo, also when another process has the lock
  static Status discard(FileSystem& fs, const std::string& target);

  StagedFolder(StagedFolder&& other) noexcept;
  StagedFolder& operator=(StagedFolder&&) = delete;
  ~StagedFolder();

  Found found() const { return found_; }
  /// Whether the file system could lock the target against other processes.
  bool is_locked() const { return lock_ != nullptr; }
  /// The target, absolute and with links resolved.
  const std::string& target() const { return target_; }
  Durability durability() const { return options_.durability; }

  /// Where a file of the content lies until publish().
  std::string content_path(std::string_view relative) const;
  /// Where a file lies that is no content and goes with the stage.
  std::string control_path(std::string_view name) const;

  /// Creates a file of the content, and the folders that `relative` names. @error kIo
  Result<std::unique_ptr<WritableFile>> create_file(std::string_view relative);
  /// Ends a file of create_file(): syncs it, with kSynced, and closes it. @error kIo
  Status finish_file(WritableFile& file) const;
  /// Removes all content but the files named: what a resumed run writes anew. @error kIo
  Status keep_only(const std::vector<std::string>& files);

  /// Leaves the stage to the next run, as a process that is killed does, unless it is published.
  void keep() { keep_stage_ = true; }

  /// Lets the content appear as the target. REQUIRES: every file was finished.
  /// @error kIo the target is as it was before; or it is the new one, but a crash of the machine
  ///        may lose it; or, where it must be published file by file, it is no longer whole and
  ///        without its key file. In the latter two the stage stays, for the next run
  Status publish();

 private:
  StagedFolder(FileSystem& fs, std::string target, StageOptions options)
      : fs_(&fs), target_(std::move(target)), options_(std::move(options)) {}

  Status take_place();
  Status take_up_or_make();
  Result<Found> recognize() const;
  Status discard_found();
  Status remove_stage();
  Result<bool> publish_at_once();
  Status publish_by_files();
  Result<std::string> folder_mark(const std::string& folder) const;
  Result<std::optional<std::string>> read_control(std::string_view name) const;
  Status write_control(std::string_view name, std::string_view text);

  FileSystem* fs_;
  std::string target_;
  StageOptions options_;
  std::string stage_;       // empty: published, or moved from
  bool inside_ = false;     // protocol B: the stage lies in the target
  bool keep_stage_ = true;  // it is not known to be ours, or the target cannot be without it
  Found found_ = Found::kNothing;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace shardkit
