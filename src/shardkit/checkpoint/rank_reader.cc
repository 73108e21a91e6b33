#include "shardkit/checkpoint/rank_reader.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace shardkit {
namespace {

/// What the files that are read ahead may take together.
constexpr std::uint64_t kAheadBytes = 64 << 20;

/// A pickle, its objects and the tree made of them take some 5 times its size at most.
constexpr std::uint64_t kBytesPerPickleByte = 5;

}  // namespace

RankReader::RankReader(FileSystem& fs, const CheckpointFolder& folder, unsigned threads)
    : fs_(fs), folder_(folder), threads_wanted_(threads) {
  threads_.reserve(threads);
  try {
    while (threads_.size() < threads) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // The system gives no more threads.
  }
}

RankReader::~RankReader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  threads_.clear();
}

void RankReader::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] {
      return stopping_ || to_start_ >= folder_.world_size || to_start_ - to_take_ < ahead_;
    });
    if (stopping_ || to_start_ >= folder_.world_size) return;
    const std::int64_t rank = to_start_++;
    lock.unlock();
    auto file = read_rank_file(fs_, folder_, rank);
    lock.lock();
    if (file.ok()) {
      largest_pickle_ = std::max(largest_pickle_, file->content.pickle_bytes);
      const std::uint64_t fitting =
          kAheadBytes / (kBytesPerPickleByte * std::max<std::uint64_t>(largest_pickle_, 1));
      ahead_ = static_cast<std::int64_t>(
          std::clamp<std::uint64_t>(fitting, 1, threads_wanted_));
    }
    done_.emplace(rank, std::move(file));
    changed_.notify_all();
  }
}

Result<RankFile> RankReader::next() {
  std::unique_lock lock(mutex_);
  const std::int64_t rank = to_take_;
  if (to_start_ == rank && threads_.empty()) {
    ++to_start_;
    ++to_take_;
    lock.unlock();
    return read_rank_file(fs_, folder_, rank);
  }
  changed_.wait(lock, [this, rank] { return done_.contains(rank); });
  auto node = done_.extract(rank);
  ++to_take_;
  lock.unlock();
  changed_.notify_all();
  return std::move(node.mapped());
}

}  // namespace shardkit
