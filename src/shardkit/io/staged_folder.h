// StagedFolder: an output folder that appears whole under its name, or not at all.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"

namespace shardkit {

/// What to do with a target folder that holds something already.
enum class ExistingTarget {
  kRefuse,   ///< an error that names --overwrite; an empty folder is no obstacle
  kReplace,  ///< it is replaced whole when the new one is published
};

/// Whether a crash of the machine may lose what was published.
enum class Durability {
  kSynced,    ///< files and folders are on the device before the target appears
  kUnsynced,  ///< left to the system: faster, for scratch disks
};

/// Files are written into a hidden folder beside the target; publish() makes them durable and
/// renames that folder to the target in one step. Destroying an unpublished stage removes it.
///
/// With kReplace the two folders are exchanged in one step and the old one is then removed; where
/// the file system has no exchange, the old one is renamed aside first and put back on failure.
class StagedFolder {
 public:
  /// @param target  the folder to appear; its parent is made if need be
  /// @error kInvalidArgument the target is a file, is not empty (kRefuse), or is the current
  ///        folder or holds it (kReplace); kIo
  static Result<StagedFolder> create(FileSystem& fs, const std::string& target,
                                     ExistingTarget existing,
                                     Durability durability = Durability::kSynced);

  /// The errors that create() would return for the target itself; makes nothing.
  static Status check(FileSystem& fs, const std::string& target, ExistingTarget existing);

  StagedFolder(StagedFolder&& other) noexcept;
  StagedFolder& operator=(StagedFolder&&) = delete;
  ~StagedFolder();

  /// Where the files are written until publish().
  const std::string& path() const { return stage_; }
  /// The target, absolute and with links resolved.
  const std::string& target() const { return target_; }

  /// Creates a file, and the folders in `relative` that are not there yet. @error kIo
  Result<std::unique_ptr<WritableFile>> create_file(std::string_view relative);

  /// Ends a file of create_file(): syncs it, with kSynced, and closes it. @error kIo
  Status finish_file(WritableFile& file) const;

  Durability durability() const { return durability_; }

  /// Makes the folder appear as the target. REQUIRES: every file was finished.
  /// @error kIo the target is as it was before
  Status publish();

 private:
  StagedFolder(FileSystem& fs, std::string target, std::string stage, ExistingTarget existing,
               Durability durability)
      : fs_(&fs),
        target_(std::move(target)),
        stage_(std::move(stage)),
        existing_(existing),
        durability_(durability) {}

  Status sync_folders(const std::string& folder);
  Status replace_target();

  FileSystem* fs_;
  std::string target_;
  std::string stage_;  // empty: published, or moved from
  ExistingTarget existing_;
  Durability durability_;
};

}  // namespace shardkit
