#include "shardkit/joint_merge/agree_on_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shardkit/collective/agreement.h"
#include "shardkit/collective/message.h"
#include "shardkit/transfer/block_hash.h"

namespace shardkit {
namespace {

/// By what a rank tells its copy of a file from another's. Not by the device: hosts number the one
/// that they share each in its own way.
struct Mark {
  bool is_there = false;
  std::int64_t inode = 0;
  std::int64_t modified_ns = 0;

  friend bool operator==(const Mark&, const Mark&) = default;
};

Result<Mark> find_mark(FileSystem& disk, const std::string& path) {
  const auto info = disk.info(path);
  if (info.ok()) return Mark{true, static_cast<std::int64_t>(info->inode), info->modified_ns};
  if (info.error().code() == ErrorCode::kNotFound) return Mark{};
  return info.error();
}

Result<std::string> encode_marks(FileSystem& disk, std::span<const SourceFile> files) {
  MessageWriter out;
  for (const SourceFile& file : files) {
    SHARDKIT_ASSIGN(const Mark mark, find_mark(disk, file.path));
    out.put(std::int64_t{mark.is_there});
    out.put(mark.inode);
    out.put(mark.modified_ns);
  }
  return std::move(out).take();
}

/// For each file its marks, by rank.
Result<std::vector<std::vector<Mark>>> decode_marks(const std::vector<std::string>& messages,
                                                    std::size_t files) {
  std::vector<std::vector<Mark>> marks(files);
  for (const std::string& bytes : messages) {
    MessageReader in(bytes);
    for (std::vector<Mark>& of_file : marks) {
      Mark mark;
      SHARDKIT_ASSIGN(const std::int64_t is_there, in.number_up_to(1));
      mark.is_there = is_there != 0;
      SHARDKIT_ASSIGN(mark.inode, in.number());
      SHARDKIT_ASSIGN(mark.modified_ns, in.number());
      of_file.push_back(mark);
    }
    SHARDKIT_TRY(in.expect_end());
  }
  return marks;
}

/// The lowest rank of each copy, where there are several; else none.
std::vector<std::size_t> readers_of(const std::vector<Mark>& marks) {
  std::vector<std::size_t> readers;
  for (std::size_t rank = 0; rank < marks.size(); ++rank)
    if (marks[rank].is_there &&
        std::find(marks.begin(), marks.end(), marks[rank]) - marks.begin() ==
            static_cast<std::ptrdiff_t>(rank))
      readers.push_back(rank);
  if (readers.size() < 2) readers.clear();
  return readers;
}

Result<std::uint64_t> hash_of(FileSystem& disk, const SourceFile& source, RankCalls& calls) {
  constexpr std::uint64_t kStep = 4 << 20;
  SHARDKIT_ASSIGN(const auto file, disk.open(source.path));
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kStep);
  BlockHasher hasher;
  for (std::uint64_t at = 0; at < source.bytes; at += kStep) {
    SHARDKIT_TRY(calls.check_goes_on());
    const std::span part(buffer.get(),
                         static_cast<std::size_t>(std::min(kStep, source.bytes - at)));
    SHARDKIT_TRY(file->read_at(at, part));
    hasher.add(part);
  }
  return hasher.finish();
}

Status compare(std::span<const SourceFile> files,
               const std::vector<std::vector<std::size_t>>& readers,
               const std::vector<std::string>& messages) {
  std::vector<MessageReader> said(messages.begin(), messages.end());
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::int64_t expected = 0;
    for (const std::size_t rank : readers[i]) {
      SHARDKIT_ASSIGN(const std::int64_t hash, said[rank].number());
      if (rank == readers[i].front()) expected = hash;
      if (hash == expected) continue;
      return Error(ErrorCode::kIncomplete,
                   fmt::format("ranks {} and {} differ in their copies of '{}'", readers[i].front(),
                               rank, files[i].path))
          .expected("XXH3-64 " + hash_text(static_cast<std::uint64_t>(expected)))
          .found(hash_text(static_cast<std::uint64_t>(hash)));
    }
  }
  for (const MessageReader& rest : said) SHARDKIT_TRY(rest.expect_end());
  return {};
}

}  // namespace

Status agree_on_copies(FileSystem& disk, RankCalls& calls, ProcessGroup& group,
                       std::span<const SourceFile> files, const std::atomic<bool>* cancel) {
  std::vector<SourceFile> unnamed;
  for (const SourceFile& file : files)
    if (file.directory_crc == 0) unnamed.push_back(file);
  if (unnamed.empty()) return {};
  SHARDKIT_ASSIGN(const auto mark_messages, exchange_messages(group, encode_marks(disk, unnamed)));
  SHARDKIT_ASSIGN(const auto marks, decode_marks(mark_messages, unnamed.size()));
  std::vector<std::vector<std::size_t>> readers;
  for (const std::vector<Mark>& of_file : marks) readers.push_back(readers_of(of_file));
  if (std::all_of(readers.begin(), readers.end(), [](const auto& ranks) { return ranks.empty(); }))
    return {};
  const auto rank = static_cast<std::size_t>(group.rank());
  MessageWriter hashes;
  const auto read_own = [&]() -> Status {
    for (std::size_t i = 0; i < unnamed.size(); ++i) {
      if (std::find(readers[i].begin(), readers[i].end(), rank) == readers[i].end()) continue;
      SHARDKIT_ASSIGN(const std::uint64_t hash, hash_of(disk, unnamed[i], calls));
      hashes.put(static_cast<std::int64_t>(hash));
    }
    return {};
  };
  SHARDKIT_TRY(calls.run(read_own, {}, cancel));
  SHARDKIT_ASSIGN(const auto messages, exchange_messages(group, std::move(hashes).take()));
  return compare(unnamed, readers, messages);
}

}  // namespace shardkit
