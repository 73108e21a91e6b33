// RankReader: the files of all ranks, read side by side and handed out in rank order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/discover.h"
#include "shardkit/checkpoint/open.h"
#include "shardkit/io/file_system.h"

namespace shardkit {

/// Threads read ahead, at most as many files as there are threads. What the caller sees does not
/// depend on their number: it takes rank after rank, errors included.
class RankReader {
 public:
  /// @param folder   outlives the reader
  /// @param threads  >= 0; none, or fewer than asked for where the system gives no more: the caller
  ///                 reads what they do not
  RankReader(FileSystem& fs, const CheckpointFolder& folder, unsigned threads);
  /// Waits for the files being read.
  ~RankReader();

  /// The next rank's file, rank 0 first. Called once for each rank, by one thread.
  /// @error as read_rank_file
  Result<RankFile> next();

 private:
  void work();
  Result<RankFile> read(std::int64_t rank);

  FileSystem& fs_;
  const CheckpointFolder& folder_;
  const std::int64_t ahead_;  // how many ranks may be read before they are taken
  std::mutex large_pickles_;

  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::int64_t to_start_ = 0;  // the next rank that nobody reads yet
  std::int64_t to_take_ = 0;   // the rank that next() returns
  bool stopping_ = false;
  std::map<std::int64_t, Result<RankFile>> done_;

  std::vector<std::jthread> threads_;
};

}  // namespace shardkit
