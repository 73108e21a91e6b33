#include "shardkit/checkpoint/rank_reader.h"

#include <system_error>
#include <utility>

namespace shardkit {

RankReader::RankReader(FileSystem& fs, const CheckpointFolder& folder, unsigned threads)
    : fs_(fs), folder_(folder), ahead_(threads) {
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

Result<RankFile> RankReader::read(std::int64_t rank) {
  return read_rank_file(fs_, folder_, rank, {.large_pickles = &large_pickles_});
}

void RankReader::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] {
      return stopping_ || to_start_ >= folder_.world_size ||
             to_start_ - to_take_ < ahead_;
    });
    if (stopping_ || to_start_ >= folder_.world_size) return;
    const std::int64_t rank = to_start_++;
    lock.unlock();
    auto file = read(rank);
    lock.lock();
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
    return read(rank);
  }
  changed_.wait(lock, [this, rank] { return done_.contains(rank); });
  auto node = done_.extract(rank);
  ++to_take_;
  lock.unlock();
  changed_.notify_all();
  return std::move(node.mapped());
}

}  // namespace shardkit
