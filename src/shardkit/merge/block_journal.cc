#include "shardkit/merge/block_journal.h"

#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include "shardkit/transfer/block_hash.h"

namespace shardkit {
namespace {

// A record: file, block, hash of the block, hash of these three. The journal never leaves the
// machine that wrote it, so numbers stand as they are in memory.
using Record = std::array<std::uint64_t, 4>;
constexpr std::uint64_t kJournalLimit = std::uint64_t{1} << 30;

std::uint64_t check_of(const Record& record) {
  return block_hash(std::as_bytes(std::span(record)).first(3 * sizeof(std::uint64_t)));
}

/// Takes the records off the front of `text`. @return how many bytes of it they are
std::size_t take_records(std::string_view text, BlockHashes& hashes) {
  std::size_t end = 0;
  for (; text.size() - end >= sizeof(Record); end += sizeof(Record)) {
    Record record;
    std::memcpy(record.data(), text.data() + end, sizeof record);
    if (record[3] != check_of(record)) break;
    hashes[{static_cast<std::size_t>(record[0]), record[1]}] = record[2];
  }
  return end;
}

}  // namespace

Result<BlockJournal> BlockJournal::open(FileSystem& fs, const std::string& path) {
  if (!fs.info(path).ok()) {
    SHARDKIT_ASSIGN(auto file, fs.create(path));
    return BlockJournal(std::move(file));
  }
  SHARDKIT_ASSIGN(const std::string text, read_whole_file(fs, path, kJournalLimit));
  SHARDKIT_ASSIGN(auto file, fs.open_to_write(path));
  BlockJournal journal(std::move(file));
  journal.end_ = take_records(text, journal.recorded_);
  return journal;
}

Result<BlockHashes> BlockJournal::read(FileSystem& fs, const std::string& path) {
  SHARDKIT_ASSIGN(const std::string text, read_whole_file(fs, path, kJournalLimit));
  BlockHashes hashes;
  take_records(text, hashes);
  return hashes;
}

std::optional<std::uint64_t> BlockJournal::recorded(std::size_t file, std::uint64_t block) const {
  const auto found = recorded_.find({file, block});
  return found == recorded_.end() ? std::nullopt : std::optional(found->second);
}

Status BlockJournal::append(std::size_t file, std::uint64_t block, std::uint64_t hash) {
  Record record{file, block, hash, 0};
  record[3] = check_of(record);
  const std::lock_guard lock(*mutex_);
  SHARDKIT_TRY(file_->write_at(end_, std::as_bytes(std::span(record))));
  end_ += sizeof record;
  return {};
}

}  // namespace shardkit
