#include "shardkit/merge/block_journal.h"

#include <array>
#include <bit>
#include <cstring>

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

}  // namespace

Result<BlockJournal> BlockJournal::open(FileSystem& fs, const std::string& path) {
  if (!fs.info(path).ok()) {
    SHARDKIT_ASSIGN(auto file, fs.create(path));
    return BlockJournal(std::move(file));
  }
  SHARDKIT_ASSIGN(const std::string text, read_whole_file(fs, path, kJournalLimit));
  SHARDKIT_ASSIGN(auto file, fs.open_to_write(path));
  BlockJournal journal(std::move(file));
  for (; text.size() - journal.end_ >= sizeof(Record); journal.end_ += sizeof(Record)) {
    Record record;
    std::memcpy(record.data(), text.data() + journal.end_, sizeof record);
    if (record[3] != check_of(record)) break;
    journal.recorded_[{static_cast<std::size_t>(record[0]), record[1]}] = record[2];
  }
  return journal;
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
