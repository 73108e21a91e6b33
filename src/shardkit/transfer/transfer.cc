#include "shardkit/transfer/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <system_error>
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
  std::size_t threads;
  std::size_t buffer_bytes;
};

/// @param folding  bytes that each thread takes beyond its buffers
Result<Resources> share_out(const TransferOptions& options, std::uint64_t blocks,
                            std::uint64_t folding) {
  if (options.threads < 0)
    return Error(ErrorCode::kInvalidArgument, "the number of threads is negative")
        .found(std::to_string(options.threads));
  const std::uint64_t least = kLeastBudget + folding;
  if (options.memory_budget < least)
    return Error(ErrorCode::kInvalidArgument, "the memory budget is too small")
        .expected(fmt::format("at least {} bytes", least))
        .found(std::to_string(options.memory_budget));
  std::uint64_t threads = options.threads > 0 ? static_cast<std::uint64_t>(options.threads)
                                              : std::max(1u, std::thread::hardware_concurrency());
  threads = std::min({threads, options.memory_budget / least, std::max<std::uint64_t>(blocks, 1)});
  const std::uint64_t buffer = (options.memory_budget / threads - folding) / BlockMaker::kBuffers;
  return Resources{
      static_cast<std::size_t>(threads),
      static_cast<std::size_t>(std::clamp<std::uint64_t>(buffer, kLeastBuffer, kMostBuffer))};
}

/// What the threads share.
struct Shared {
  Shared(const Plan& the_plan, const OutputBlocks& the_blocks, const BlockRange& range,
         FileCache& the_files, BlockSink& the_sink, const std::atomic<bool>* the_cancel)
      : plan(the_plan),
        blocks(the_blocks),
        end_block(range.end),
        files(the_files),
        sink(the_sink),
        cancel(the_cancel),
        next_block(range.begin) {}

  bool cancelled() const { return cancel != nullptr && *cancel; }

  const Plan& plan;
  const OutputBlocks& blocks;
  const std::uint64_t end_block;
  FileCache& files;
  BlockSink& sink;
  const std::atomic<bool>* const cancel;
  std::atomic<std::uint64_t> next_block;
  std::atomic<std::uint64_t> bytes_done{0};
  std::atomic<std::uint64_t> first_failed{~std::uint64_t{0}};

  std::mutex mutex;
  std::condition_variable finished;
  std::size_t ended = 0;                  // threads
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
    if (block >= shared.end_block || block > shared.first_failed) break;
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
  ++shared.ended;
  shared.finished.notify_one();
}

}  // namespace

Status transfer(const Plan& plan, FileSystem& fs, BlockSink& sink, const TransferOptions& options) {
  const OutputBlocks blocks(plan.files());
  const BlockRange range{options.blocks.begin, std::min(options.blocks.end, blocks.count())};
  const std::uint64_t count = range.end - std::min(range.begin, range.end);
  SHARDKIT_ASSIGN(const Resources resources,
                  share_out(options, count, FoldReader::bytes_needed(plan)));
  FileCache files(fs, kOpenFiles);
  Shared shared(plan, blocks, range, files, sink, options.cancel);
  const auto report = [&] {
    if (options.on_progress) options.on_progress({shared.bytes_done, plan.summary().write_bytes});
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(resources.threads);
    try {
      while (threads.size() < resources.threads)
        threads.emplace_back([&shared, &resources] { work(shared, resources.buffer_bytes); });
    } catch (const std::system_error&) {
      // The system gives no more threads.
    }
    if (threads.empty()) work(shared, resources.buffer_bytes);
    std::unique_lock lock(shared.mutex);
    while (!shared.finished.wait_for(lock, std::chrono::milliseconds(100), [&shared, &threads] {
      return shared.ended >= threads.size();
    })) {
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
