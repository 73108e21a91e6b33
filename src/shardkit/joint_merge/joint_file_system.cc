// Questions of three kinds: what is at a path, what does a folder hold, some ranges of a file.
#include "shardkit/joint_merge/joint_file_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "shardkit/collective/message.h"
#include "shardkit/io/path.h"

namespace shardkit {
namespace {

enum Question : std::int64_t { kInfo, kList, kRead };

/// Files kept open for other ranks.
constexpr std::size_t kServedFiles = 32;
/// Bytes of a question; longer reads are asked for in parts.
constexpr std::uint64_t kMostRead = 8 << 20;
/// What is asked for ahead, and held until it is read: pages, for what is announced need not be
/// quite what is read.
constexpr std::uint64_t kPageBytes = 1 << 10;
constexpr std::size_t kMostPages = 4096;

struct Range {
  std::uint64_t offset;
  std::uint64_t bytes;
};

std::string ask_about(Question kind, const std::string& path) {
  MessageWriter out;
  out.put(std::int64_t{kind});
  out.put(path);
  return std::move(out).take();
}

void put_info(const FileInfo& info, MessageWriter& out) {
  out.put(static_cast<std::int64_t>(info.kind));
  out.put(static_cast<std::int64_t>(info.bytes));
  out.put(info.modified_ns);
}

/// Device and inode are of another host, and mean nothing here.
Result<FileInfo> take_info(MessageReader& in) {
  FileInfo info;
  SHARDKIT_ASSIGN(const std::int64_t kind,
                  in.number_up_to(static_cast<std::int64_t>(FileKind::kOther)));
  info.kind = static_cast<FileKind>(kind);
  SHARDKIT_ASSIGN(const std::int64_t bytes,
                  in.number_up_to(std::numeric_limits<std::int64_t>::max()));
  info.bytes = static_cast<std::uint64_t>(bytes);
  SHARDKIT_ASSIGN(info.modified_ns, in.number());
  return info;
}

Result<std::vector<DirectoryEntry>> take_entries(std::string_view bytes) {
  MessageReader in(bytes);
  SHARDKIT_ASSIGN(const std::size_t count, in.count());
  std::vector<DirectoryEntry> entries;
  for (std::size_t i = 0; i < count; ++i) {
    DirectoryEntry entry;
    SHARDKIT_ASSIGN(entry.name, in.text());
    SHARDKIT_ASSIGN(entry.info, take_info(in));
    SHARDKIT_ASSIGN(const std::int64_t is_link, in.number_up_to(1));
    entry.is_link = is_link != 0;
    entries.push_back(std::move(entry));
  }
  SHARDKIT_TRY(in.expect_end());
  return entries;
}

std::string without_last_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

bool lies_in(std::string_view path, std::string_view folder) {
  return path == folder ||
         (path.starts_with(folder) && (folder.ends_with('/') || path[folder.size()] == '/'));
}

bool climbs(std::string_view path) {
  return path == ".." || path.starts_with("../") || path.ends_with("/..") ||
         path.find("/../") != std::string_view::npos;
}

/// What a question of kind kRead asks for. @error kPeer it is too much
Result<std::vector<Range>> take_ranges(MessageReader& in) {
  SHARDKIT_ASSIGN(const std::size_t count, in.count());
  std::vector<Range> ranges;
  std::uint64_t left = kMostRead;
  for (std::size_t i = 0; i < count; ++i) {
    SHARDKIT_ASSIGN(const std::int64_t offset,
                    in.number_up_to(std::numeric_limits<std::int64_t>::max()));
    SHARDKIT_ASSIGN(const std::int64_t bytes, in.number_up_to(static_cast<std::int64_t>(left)));
    ranges.push_back({static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(bytes)});
    left -= ranges.back().bytes;
  }
  SHARDKIT_TRY(in.expect_end());
  return ranges;
}

/// The bytes of all ranges, one behind the other.
Result<std::string> read_ranges(const RandomAccessFile& file, const std::vector<Range>& ranges) {
  if (ranges.size() > 1)
    for (const Range& range : ranges) file.will_read(range.offset, range.bytes);
  std::string out;
  for (const Range& range : ranges) {
    const std::size_t begin = out.size();
    out.resize(begin + static_cast<std::size_t>(range.bytes));
    SHARDKIT_TRY(file.read_at(range.offset, std::as_writable_bytes(std::span(out)).subspan(begin)));
  }
  return out;
}

/// A file of another rank. A question takes a round of all ranks, so where small reads lie far
/// apart, as local headers do, all that were announced are asked for with the first of them.
class RemoteFile final : public RandomAccessFile {
 public:
  RemoteFile(RankCalls& calls, int holder, std::string path, std::uint64_t size)
      : calls_(calls), holder_(holder), path_(std::move(path)), size_(size) {}

  const std::string& path() const override { return path_; }
  std::uint64_t size() const override { return size_; }

  Status read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    SHARDKIT_ASSIGN(const bool was_announced, read_announced(offset, out));
    if (was_announced) return {};
    while (!out.empty()) {
      const auto part = out.first(std::min<std::size_t>(out.size(), kMostRead));
      SHARDKIT_ASSIGN(const std::string bytes, ask_for({{offset, part.size()}}));
      std::memcpy(part.data(), bytes.data(), bytes.size());
      offset += part.size();
      out = out.subspan(part.size());
    }
    return {};
  }

  void will_read(std::uint64_t offset, std::uint64_t bytes) const override {
    if (offset >= size_ || bytes == 0) return;
    const std::uint64_t last = (offset + std::min(bytes, size_ - offset) - 1) / kPageBytes;
    const std::lock_guard lock(mutex_);
    for (std::uint64_t page = offset / kPageBytes; page <= last; ++page)
      if (announced_.size() < kMostPages && !pages_.contains(page)) announced_.insert(page);
  }

 private:
  /// @return the bytes of all ranges, one behind the other
  Result<std::string> ask_for(const std::vector<Range>& ranges) const {
    MessageWriter question;
    question.put(std::int64_t{kRead});
    question.put(path_);
    question.put(static_cast<std::int64_t>(ranges.size()));
    std::uint64_t expected = 0;
    for (const Range& range : ranges) {
      question.put(static_cast<std::int64_t>(range.offset));
      question.put(static_cast<std::int64_t>(range.bytes));
      expected += range.bytes;
    }
    SHARDKIT_ASSIGN(std::string bytes, calls_.ask(holder_, std::move(question).take()));
    if (bytes.size() != expected)
      return Error(ErrorCode::kPeer,
                   fmt::format("rank {} sent too few or too many bytes of a file", holder_))
          .in_file(path_)
          .at_offset(ranges.front().offset)
          .expected(std::to_string(expected))
          .found(std::to_string(bytes.size()));
    return bytes;
  }

  /// False where it does nothing: not all of it was announced.
  Result<bool> read_announced(std::uint64_t offset, std::span<std::byte> out) const {
    if (out.empty() || offset > size_ || out.size() > size_ - offset) return false;
    const std::uint64_t first = offset / kPageBytes;
    const std::uint64_t last = (offset + out.size() - 1) / kPageBytes;
    if (last - first >= kMostPages) return false;
    const std::lock_guard lock(mutex_);
    bool is_there = true;
    for (std::uint64_t page = first; page <= last; ++page) {
      if (pages_.contains(page)) continue;
      if (!announced_.contains(page)) return false;
      is_there = false;
    }
    if (!is_there) SHARDKIT_TRY(fetch_announced());
    for (std::uint64_t page = first; page <= last; ++page) {
      const std::uint64_t begin = std::max(offset, page * kPageBytes);
      const std::uint64_t end = std::min(offset + out.size(), (page + 1) * kPageBytes);
      std::memcpy(out.data() + (begin - offset), pages_.at(page).data() + begin % kPageBytes,
                  static_cast<std::size_t>(end - begin));
    }
    pages_.erase(pages_.begin(), pages_.lower_bound(first));  // readers go forward
    return true;
  }

  Status fetch_announced() const {
    std::vector<Range> ranges;
    for (const std::uint64_t page : announced_)
      ranges.push_back({page * kPageBytes, std::min(kPageBytes, size_ - page * kPageBytes)});
    SHARDKIT_ASSIGN(const std::string bytes, ask_for(ranges));
    std::string_view rest = bytes;
    for (const Range& range : ranges) {
      pages_[range.offset / kPageBytes] = rest.substr(0, static_cast<std::size_t>(range.bytes));
      rest.remove_prefix(static_cast<std::size_t>(range.bytes));
    }
    announced_.clear();
    return {};
  }

  RankCalls& calls_;
  const int holder_;
  const std::string path_;
  const std::uint64_t size_;
  mutable std::mutex mutex_;                   // of all below
  mutable std::set<std::uint64_t> announced_;  // pages, by number
  mutable std::map<std::uint64_t, std::string> pages_;
};

}  // namespace

JointFileSystem::JointFileSystem(FileSystem& local, ProcessGroup& group,
                                 const std::vector<std::string>& folders, const std::string& own)
    : local_(local),
      served_(local, kServedFiles),
      calls_(group, [this](std::string_view question) { return answer(question); }) {
  for (const std::string& folder : folders)
    folders_.push_back({without_last_slashes(folder), resolved_path(folder)});
  for (const std::string& spelling : {without_last_slashes(own), resolved_path(own)})
    own_.push_back(spelling);
}

std::optional<std::string> JointFileSystem::joint_name(std::string_view path) const {
  for (const std::string& own : own_)
    if (lies_in(path, own) ||
        path.starts_with(join_path(parent_path(own), "." + base_name(own) + ".")))
      return std::nullopt;
  for (const Folder& folder : folders_)
    for (const std::string& spelling : {folder.name, folder.resolved})
      if (lies_in(path, spelling) && !climbs(path.substr(spelling.size())))
        return folder.name + std::string(path.substr(spelling.size()));
  return std::nullopt;
}

/// Links are followed within the folders alone: what lies elsewhere is not for other hosts.
Status JointFileSystem::check_may_tell(const std::string& path) const {
  const std::string real = resolved_path(path);
  const bool inside =
      joint_name(path) && std::any_of(folders_.begin(), folders_.end(), [&](const Folder& folder) {
        return lies_in(path, folder.name) && is_within(real, folder.resolved);
      });
  if (inside) return {};
  return Error(ErrorCode::kUnsafe, "another rank needs a file that is not in the given folders")
      .in_file(path)
      .found(real);
}

Result<std::string> JointFileSystem::answer(std::string_view question) {
  MessageReader in(question);
  SHARDKIT_ASSIGN(const std::int64_t kind, in.number_up_to(kRead));
  SHARDKIT_ASSIGN(const std::string path, in.text());
  SHARDKIT_TRY(check_may_tell(path));
  if (kind == kRead) {
    SHARDKIT_ASSIGN(const std::vector<Range> ranges, take_ranges(in));
    SHARDKIT_ASSIGN(const auto file, served_.open(path));
    return read_ranges(*file, ranges);
  }
  MessageWriter out;
  if (kind == kInfo) {
    SHARDKIT_ASSIGN(const FileInfo info, local_.info(path));
    put_info(info, out);
  } else {
    SHARDKIT_ASSIGN(const auto entries, local_.list(path));
    out.put(static_cast<std::int64_t>(entries.size()));
    for (const DirectoryEntry& entry : entries) {
      out.put(entry.name);
      put_info(entry.info, out);
      out.put(static_cast<std::int64_t>(entry.is_link));
    }
  }
  return std::move(out).take();
}

Result<FileInfo> JointFileSystem::ask_info(const std::string& name) {
  const std::string question = ask_about(kInfo, name);
  std::optional<int> holder;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = holders_.find(name); found != holders_.end()) holder = found->second;
  }
  std::vector<Result<std::string>> answers;
  int first = 0;
  if (holder) {
    answers.push_back(calls_.ask(*holder, question));
    first = *holder;
  } else {
    answers = calls_.ask_others(question);
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const int rank = first + static_cast<int>(i);
    if (rank == calls_.group().rank()) continue;
    if (!answers[i].ok()) {
      if (answers[i].error().code() == ErrorCode::kNotFound) continue;
      return std::move(answers[i]).error();
    }
    MessageReader in(*answers[i]);
    SHARDKIT_ASSIGN(const FileInfo info, take_info(in));
    const std::lock_guard lock(mutex_);
    holders_[name] = rank;
    return info;
  }
  return Error(ErrorCode::kNotFound, "no rank has this file or folder").in_file(name);
}

Result<FileInfo> JointFileSystem::info(const std::string& path) {
  auto own = local_.info(path);
  if (own.ok() || own.error().code() != ErrorCode::kNotFound) return own;
  const auto name = joint_name(path);
  return name ? ask_info(*name) : own;
}

Result<std::unique_ptr<RandomAccessFile>> JointFileSystem::open(const std::string& path) {
  auto own = local_.open(path);
  if (own.ok() || own.error().code() != ErrorCode::kNotFound) return own;
  const auto name = joint_name(path);
  if (!name) return own;
  SHARDKIT_ASSIGN(const FileInfo info, ask_info(*name));
  if (info.kind != FileKind::kRegular)
    return Error(ErrorCode::kIo, "not a regular file").in_file(path);
  const std::lock_guard lock(mutex_);
  return std::unique_ptr<RandomAccessFile>(
      std::make_unique<RemoteFile>(calls_, holders_.at(*name), *name, info.bytes));
}

Result<std::vector<DirectoryEntry>> JointFileSystem::list(const std::string& path) {
  auto own = local_.list(path);
  const auto name = joint_name(path);
  if (!name || (!own.ok() && own.error().code() != ErrorCode::kNotFound)) return own;
  std::map<std::string, DirectoryEntry> entries;
  bool found = own.ok();
  if (own.ok())
    for (DirectoryEntry& entry : *own) entries.emplace(entry.name, std::move(entry));
  const auto answers = calls_.ask_others(ask_about(kList, *name));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const int rank = static_cast<int>(i);
    if (rank == calls_.group().rank()) continue;
    if (!answers[i].ok()) {
      if (answers[i].error().code() == ErrorCode::kNotFound) continue;
      return answers[i].error();
    }
    found = true;
    SHARDKIT_ASSIGN(std::vector<DirectoryEntry> theirs, take_entries(*answers[i]));
    for (DirectoryEntry& entry : theirs) {
      const std::string below = join_path(*name, entry.name);
      if (!joint_name(below) || !entries.emplace(entry.name, std::move(entry)).second) continue;
      const std::lock_guard lock(mutex_);
      holders_[below] = rank;
    }
  }
  if (!found) return own;
  std::vector<DirectoryEntry> all;
  for (auto& named : entries) all.push_back(std::move(named.second));
  return all;
}

}  // namespace shardkit
