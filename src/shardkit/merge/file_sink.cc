#include "shardkit/merge/file_sink.h"

namespace shardkit {

FileSink::FileSink(StagedFolder& stage, const Plan& plan) : stage_(stage), plan_(plan) {
  for (const PlannedFile& file : plan.files())
    outputs_.push_back({nullptr, (file.bytes + kBlockBytes - 1) / kBlockBytes});
}

Status FileSink::write(std::size_t file, std::uint64_t offset, std::span<const std::byte> block) {
  Output& output = outputs_[file];
  std::shared_ptr<WritableFile> target;
  {
    const std::lock_guard lock(mutex_);
    if (!output.file) {
      SHARDKIT_ASSIGN(output.file, stage_.create_file(plan_.files()[file].name));
      SHARDKIT_TRY(output.file->reserve(plan_.files()[file].bytes));
    }
    target = output.file;
  }
  SHARDKIT_TRY(target->write_at(offset, block));
  if (stage_.durability() == Durability::kSynced) target->start_writeback(offset, block.size());
  {
    const std::lock_guard lock(mutex_);
    if (--output.blocks_left > 0) return {};
    output.file = nullptr;
  }
  return stage_.finish_file(*target);
}

}  // namespace shardkit
