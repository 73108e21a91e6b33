// FileSink: the blocks of a transfer into the files of a staged folder.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/io/staged_folder.h"
#include "shardkit/plan/plan.h"
#include "shardkit/transfer/transfer.h"

namespace shardkit {

/// Opens each file at its first block; finishes it after its last, so that few are open at
/// once however many there are.
class FileSink final : public BlockSink {
 public:
  /// Both outlive this.
  FileSink(StagedFolder& stage, const Plan& plan);

  Status write(std::size_t file, std::uint64_t offset, std::span<const std::byte> block) override;

 private:
  struct Output {
    std::shared_ptr<WritableFile> file;
    std::uint64_t blocks_left = 0;
  };

  StagedFolder& stage_;
  const Plan& plan_;
  std::mutex mutex_;
  std::vector<Output> outputs_;
};

}  // namespace shardkit
