#include "shardkit/merge/file_sink.h"

#include <algorithm>
#include <utility>

#include "shardkit/io/file_tree.h"
#include "shardkit/io/path.h"
#include "shardkit/tensor/overflow.h"
#include "shardkit/transfer/block_hash.h"

namespace shardkit {

FileSink::FileSink(FileSystem& fs, std::string folder, Durability durability, BlockRecords& records,
                   const Plan& plan, const BlockRange& blocks)
    : fs_(fs), folder_(std::move(folder)), durability_(durability), records_(records), plan_(plan) {
  const OutputBlocks all(plan.files());
  for (std::size_t file = 0; file < plan.files().size(); ++file) {
    const BlockRange whole = all.of_file(file, {});
    const BlockRange made = all.of_file(file, blocks);
    outputs_.push_back({nullptr, fs.info(path_of(file)).ok(), made.end - made.begin});
    hashes_.emplace_back(whole.end - whole.begin, 0);
    for (const PlannedTensor& step : plan.files()[file].tensors) {
      const CatalogTensor& tensor = plan.catalog().tensors[step.tensor];
      may_overflow_ |=
          may_overflow_float16(tensor.fold ? fold_dtype(tensor.dtype) : tensor.dtype, step.dtype);
    }
  }
}

std::string FileSink::path_of(std::size_t file) const {
  return join_path(folder_, plan_.files()[file].name);
}

Result<bool> FileSink::has(std::size_t file, std::uint64_t offset, std::uint64_t bytes,
                           std::span<std::byte> scratch) {
  const std::uint64_t block = offset / kBlockBytes;
  const auto recorded = records_.recorded(file, block);
  if (!recorded || !outputs_[file].exists) return false;
  const auto written = fs_.open(path_of(file));
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
  if (durability_ == Durability::kSynced) {
    SHARDKIT_ASSIGN(const auto target, opened(file));
    target->start_writeback(offset, bytes);
  }
  const std::uint64_t block = offset / kBlockBytes;
  SHARDKIT_TRY(records_.append(file, block, hash));
  return count_block(file, block, hash);
}

Result<std::shared_ptr<WritableFile>> FileSink::opened(std::size_t file) {
  const std::string path = path_of(file);
  const std::lock_guard lock(mutex_);
  Output& output = outputs_[file];
  if (!output.file) {
    if (output.exists) {
      SHARDKIT_ASSIGN(output.file, fs_.open_to_write(path));
    } else {
      SHARDKIT_TRY(make_directories(fs_, parent_path(path), Durability::kUnsynced));
      SHARDKIT_ASSIGN(output.file, fs_.create(path));
    }
    // A scratch disk need not even choose the places for bytes that need never reach it.
    if (durability_ == Durability::kSynced)
      SHARDKIT_TRY(output.file->reserve(plan_.files()[file].bytes));
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
  if (durability_ == Durability::kSynced) SHARDKIT_TRY(finished->sync());
  return finished->close();
}

}  // namespace shardkit
