#include "shardkit/merge/file_sink.h"

#include "shardkit/transfer/block_hash.h"

namespace shardkit {

FileSink::FileSink(FileSystem& fs, StagedFolder& stage, BlockJournal& journal, const Plan& plan)
    : fs_(fs), stage_(stage), journal_(journal), plan_(plan) {
  for (const PlannedFile& file : plan.files()) {
    const std::uint64_t blocks = (file.bytes + kBlockBytes - 1) / kBlockBytes;
    const auto info = fs.info(stage.content_path(file.name));
    outputs_.push_back({nullptr, info.ok(), blocks});
    hashes_.emplace_back(blocks, 0);
  }
}

Result<bool> FileSink::has(std::size_t file, std::uint64_t offset, std::span<std::byte> scratch) {
  const std::uint64_t block = offset / kBlockBytes;
  const auto recorded = journal_.recorded(file, block);
  if (!recorded || !outputs_[file].exists) return false;
  const auto written = fs_.open(stage_.content_path(plan_.files()[file].name));
  if (!written.ok() || offset + scratch.size() > (*written)->size()) return false;
  if (!(*written)->read_at(offset, scratch).ok()) return false;
  if (block_hash(scratch) != *recorded) return false;
  // Opened though nothing is written: it must still be synced with the rest.
  SHARDKIT_TRY(opened(file));
  {
    const std::lock_guard lock(mutex_);
    ++blocks_kept_;
  }
  SHARDKIT_TRY(end_block(file, block, *recorded));
  return true;
}

Status FileSink::write(std::size_t file, std::uint64_t offset, std::span<const std::byte> block) {
  SHARDKIT_ASSIGN(const auto target, opened(file));
  SHARDKIT_TRY(target->write_at(offset, block));
  if (stage_.durability() == Durability::kSynced) target->start_writeback(offset, block.size());
  const std::uint64_t hash = block_hash(block);
  SHARDKIT_TRY(journal_.append(file, offset / kBlockBytes, hash));
  return end_block(file, offset / kBlockBytes, hash);
}

Result<std::shared_ptr<WritableFile>> FileSink::opened(std::size_t file) {
  const PlannedFile& planned = plan_.files()[file];
  const std::lock_guard lock(mutex_);
  Output& output = outputs_[file];
  if (!output.file) {
    if (output.exists) {
      SHARDKIT_ASSIGN(output.file, fs_.open_to_write(stage_.content_path(planned.name)));
    } else {
      SHARDKIT_ASSIGN(output.file, stage_.create_file(planned.name));
    }
    SHARDKIT_TRY(output.file->reserve(planned.bytes));
  }
  return output.file;
}

Status FileSink::end_block(std::size_t file, std::uint64_t block, std::uint64_t hash) {
  std::shared_ptr<WritableFile> finished;
  {
    const std::lock_guard lock(mutex_);
    hashes_[file][block] = hash;
    Output& output = outputs_[file];
    if (--output.blocks_left > 0) return {};
    finished = std::move(output.file);
  }
  return stage_.finish_file(*finished);
}

}  // namespace shardkit
