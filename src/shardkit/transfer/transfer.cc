#include "shardkit/transfer/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "shardkit/io/file_cache.h"
#include "shardkit/transfer/block_maker.h"
#include "shardkit/transfer/fold_reader.h"

namespace shardkit {
namespace {

/// Source files kept open; with the threads' own and the outputs well below the usual 256.
constexpr std::size_t kOpenFiles = 64;
constexpr std::size_t kLeastBuffer = 1 << 20;
constexpr std::size_t kMostBuffer = 16 << 20;
static_assert(kLeastBudget >= BlockMaker::kBuffers * kLeastBuffer);

struct Resources {
  int threads;
  std::size_t buffer_bytes;
};

/// @param folding  bytes that each thread takes beyond its buffers
Result<Resources> share_out(const TransferOptions& options, std::uint64_t blocks,
                            std::uint64_t folding) {
  if (options.threads < 0)
    return Error(ErrorCode::kInvalidArgument, "a negative number of threads");
  const std::uint64_t least = kLeastBudget + folding;
  if (options.memory_budget < least)
    return Error(ErrorCode::kInvalidArgument, "the memory budget is too small")
        .expected(fmt::format("at least {} bytes", least))
        .found(std::to_string(options.memory_budget));
  std::uint64_t threads = options.threads > 0 ? static_cast<std::uint64_t>(options.threads)
                                              : std::max(1u, std::thread::hardware_concurrency());
  threads = std::min({threads, options.memory_budget / least, std::max<std::uint64_t>(blocks, 1)});
  const std::uint64_t buffer =
      (options.memory_budget / threads - folding) / BlockMaker::kBuffers;
  return Resources{static_cast<int>(threads),
                   static_cast<std::size_t>(std::clamp<std::uint64_t>(buffer, kLeastBuffer, kMostBuffer))};
}

/// The blocks of all files, numbered through.
class Blocks {
 public:
  explicit Blocks(const std::vector<PlannedFile>& files) {
    for (const PlannedFile& file : files) {
      first_.push_back(count_);
      count_ += (file.bytes + kBlockBytes - 1) / kBlockBytes;
    }
  }

  std::uint64_t count() const { return count_; }

  /// {file, offset} of a block.
  std::pair<std::size_t, std::uint64_t> at(std::uint64_t block) const {
    const auto after = std::upper_bound(first_.begin(), first_.end(), block);
    const auto file = static_cast<std::size_t>(after - first_.begin()) - 1;
    return {file, (block - first_[file]) * kBlockBytes};
  }

 private:
  std::vector<std::uint64_t> first_;
  std::uint64_t count_ = 0;
};

/// What the threads share.
struct Shared {
  Shared(const Plan& the_plan, const Blocks& the_blocks, FileCache& the_files, BlockSink& the_sink,
         const std::atomic<bool>* the_cancel, int threads)
      : plan(the_plan),
        blocks(the_blocks),
        files(the_files),
        sink(the_sink),
        cancel(the_cancel),
        running(threads) {}

  bool cancelled() const { return cancel != nullptr && *cancel; }

  const Plan& plan;
  const Blocks& blocks;
  FileCache& files;
  BlockSink& sink;
  const std::atomic<bool>* const cancel;
  std::atomic<std::uint64_t> next_block{0};
  std::atomic<std::uint64_t> bytes_done{0};
  std::atomic<std::uint64_t> first_failed{~std::uint64_t{0}};

  std::mutex mutex;
  std::condition_variable finished;
  int running;
  std::map<std::uint64_t, Error> errors;  // by block

  void fail(std::uint64_t block, Error error) {
    const std::lock_guard lock(mutex);
    errors.emplace(block, std::move(error));
    first_failed = errors.begin()->first;
  }
};

void work(Shared& shared, std::size_t buffer_bytes) {
  BlockMaker maker(shared.plan, shared.files, shared.sink, buffer_bytes);
  for (;;) {
    const std::uint64_t block = shared.next_block.fetch_add(1);
    if (block >= shared.blocks.count() || block > shared.first_failed) break;
    if (shared.cancelled()) {
      shared.fail(block, Error(ErrorCode::kCancelled, "stopped on request"));
      break;
    }
    const auto [index, offset] = shared.blocks.at(block);
    const std::uint64_t bytes =
        std::min<std::uint64_t>(kBlockBytes, shared.plan.files()[index].bytes - offset);
    Status status = maker.make(index, offset, bytes);
    if (!status.ok()) {
      shared.fail(block, std::move(status).error());
      break;
    }
    shared.bytes_done += bytes;
  }
  const std::lock_guard lock(shared.mutex);
  --shared.running;
  shared.finished.notify_one();
}

}  // namespace

Status transfer(const Plan& plan, FileSystem& fs, BlockSink& sink,
                const TransferOptions& options) {
  const Blocks blocks(plan.files());
  SHARDKIT_ASSIGN(const Resources resources, share_out(options, blocks.count(),
                                                      FoldReader::bytes_needed(plan)));
  FileCache files(fs, kOpenFiles);
  Shared shared(plan, blocks, files, sink, options.cancel, resources.threads);
  const auto report = [&] {
    if (options.on_progress)
      options.on_progress({shared.bytes_done, plan.summary().write_bytes});
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < resources.threads; ++i)
      threads.emplace_back([&shared, &resources] { work(shared, resources.buffer_bytes); });
    std::unique_lock lock(shared.mutex);
    while (!shared.finished.wait_for(lock, std::chrono::milliseconds(100),
                                     [&shared] { return shared.running == 0; })) {
      lock.unlock();
      report();
      lock.lock();
    }
  }
  if (!shared.errors.empty()) return std::move(shared.errors.begin()->second);
  report();
  return {};
}

}  // namespace shardkit
