#include "shardkit/merge/file_sink.h"

#include <algorithm>

#include "shardkit/tensor/overflow.h"
#include "shardkit/transfer/block_hash.h"

namespace shardkit {

FileSink::FileSink(FileSystem& fs, StagedFolder& stage, BlockJournal& journal, const Plan& plan)
    : fs_(fs), stage_(stage), journal_(journal), plan_(plan) {
  for (const PlannedFile& file : plan.files()) {
    const std::uint64_t blocks = (file.bytes + kBlockBytes - 1) / kBlockBytes;
    const auto info = fs.info(stage.content_path(file.name));
    outputs_.push_back({nullptr, info.ok(), blocks});
    hashes_.emplace_back(blocks, 0);
    for (const PlannedTensor& step : file.tensors) {
      const CatalogTensor& tensor = plan.catalog().tensors[step.tensor];
      may_overflow_ |= may_overflow_float16(
          tensor.fold ? fold_dtype(tensor.dtype) : tensor.dtype, step.dtype);
    }
  }
}

Result<bool> FileSink::has(std::size_t file, std::uint64_t offset, std::uint64_t bytes,
                           std::span<std::byte> scratch) {
  const std::uint64_t block = offset / kBlockBytes;
  const auto recorded = journal_.recorded(file, block);
  if (!recorded || !outputs_[file].exists) return false;
  const auto written = fs_.open(stage_.content_path(plan_.files()[file].name));
  if (!written.ok() || offset + bytes > (*written)->size()) return false;
  BlockHasher hasher;
  for (std::uint64_t done = 0; done < bytes;) {
    const auto part = scratch.first(
        static_cast<std::size_t>(std::min<std::uint64_t>(scratch.size(), bytes - done)));
    if (!(*written)->read_at(offset + done, part).ok()) return false;
    if (may_overflow_ && may_hold_infinite_float16(part)) return false;
    hasher.add(part);
    done += part.size();
  }
  if (hasher.finish() != *recorded) return false;
  // Opened though nothing is written: it must still be synced with the rest.
  SHARDKIT_TRY(opened(file));
  {
    const std::lock_guard lock(mutex_);
    ++blocks_kept_;
  }
  SHARDKIT_TRY(count_block(file, block, *recorded));
  return true;
}

Status FileSink::write(std::size_t file, std::uint64_t offset, std::span<const std::byte> part) {
  SHARDKIT_ASSIGN(const auto target, opened(file));
  return target->write_at(offset, part);
}

void FileSink::overflowed(std::size_t tensor, std::uint64_t values) {
  const std::lock_guard lock(mutex_);
  overflows_[tensor] += values;
}

Status FileSink::end_block(std::size_t file, std::uint64_t offset, std::uint64_t bytes,
                           std::uint64_t hash) {
  if (stage_.durability() == Durability::kSynced) {
    SHARDKIT_ASSIGN(const auto target, opened(file));
    target->start_writeback(offset, bytes);
  }
  const std::uint64_t block = offset / kBlockBytes;
  SHARDKIT_TRY(journal_.append(file, block, hash));
  return count_block(file, block, hash);
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
    // A scratch disk need not even choose the places for bytes that need never reach it.
    if (stage_.durability() == Durability::kSynced)
      SHARDKIT_TRY(output.file->reserve(planned.bytes));
  }
  return output.file;
}

Status FileSink::count_block(std::size_t file, std::uint64_t block, std::uint64_t hash) {
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
