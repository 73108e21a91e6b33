#include "shardkit/joint_merge/told_records.h"

#include <utility>

#include "shardkit/collective/message.h"

namespace shardkit {

std::optional<std::uint64_t> ToldRecords::recorded(std::size_t file, std::uint64_t block) const {
  const auto found = recorded_.find({file, block});
  return found == recorded_.end() ? std::nullopt : std::optional(found->second);
}

Status ToldRecords::append(std::size_t file, std::uint64_t block, std::uint64_t hash) {
  const std::lock_guard lock(mutex_);
  untold_.push_back({file, block, hash});
  return {};
}

std::string ToldRecords::take_note() {
  std::vector<Record> records;
  {
    const std::lock_guard lock(mutex_);
    records.swap(untold_);
  }
  MessageWriter out;
  out.put(static_cast<std::int64_t>(bytes_done_));
  out.put(static_cast<std::int64_t>(records.size()));
  for (const Record& record : records) {
    out.put(static_cast<std::int64_t>(record.file));
    out.put(static_cast<std::int64_t>(record.block));
    out.put(static_cast<std::int64_t>(record.hash));
  }
  return std::move(out).take();
}

Result<ToldRecords::Note> ToldRecords::read_note(std::string_view bytes) {
  MessageReader in(bytes);
  Note note;
  SHARDKIT_ASSIGN(const std::int64_t done, in.number());
  note.bytes_done = static_cast<std::uint64_t>(done);
  SHARDKIT_ASSIGN(const std::size_t count, in.count());
  for (std::size_t i = 0; i < count; ++i) {
    SHARDKIT_ASSIGN(const std::int64_t file, in.number());
    SHARDKIT_ASSIGN(const std::int64_t block, in.number());
    SHARDKIT_ASSIGN(const std::int64_t hash, in.number());
    note.records.push_back({static_cast<std::size_t>(file), static_cast<std::uint64_t>(block),
                            static_cast<std::uint64_t>(hash)});
  }
  SHARDKIT_TRY(in.expect_end());
  return note;
}

}  // namespace shardkit
