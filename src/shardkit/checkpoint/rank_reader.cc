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
  for (std::int64_t rank = 0; rank < folder.world_size; ++rank)
    if (!folder.rank_files[static_cast<std::size_t>(rank)].empty()) ranks_.push_back(rank);
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
  const auto count = static_cast<std::int64_t>(ranks_.size());
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this, count] {
      return stopping_ || to_start_ >= count || to_start_ - to_take_ < ahead_;
    });
    if (stopping_ || to_start_ >= count) return;
    const std::int64_t place = to_start_++;
    lock.unlock();
    auto file = read_rank_file(fs_, folder_, ranks_[static_cast<std::size_t>(place)]);
    lock.lock();
    if (file.ok()) {
      largest_pickle_ = std::max(largest_pickle_, file->content.pickle_bytes);
      const std::uint64_t fitting =
          kAheadBytes / (kBytesPerPickleByte * std::max<std::uint64_t>(largest_pickle_, 1));
      ahead_ = static_cast<std::int64_t>(std::clamp<std::uint64_t>(fitting, 1, threads_wanted_));
    }
    done_.emplace(place, std::move(file));
    changed_.notify_all();
  }
}

Result<RankFile> RankReader::next() {
  std::unique_lock lock(mutex_);
  const std::int64_t place = to_take_;
  if (to_start_ == place && threads_.empty()) {
    ++to_start_;
    ++to_take_;
    lock.unlock();
    return read_rank_file(fs_, folder_, ranks_[static_cast<std::size_t>(place)]);
  }
  changed_.wait(lock, [this, place] { return done_.contains(place); });
  auto node = done_.extract(place);
  ++to_take_;
  lock.unlock();
  changed_.notify_all();
  return std::move(node.mapped());
}

}  // namespace shardkit
