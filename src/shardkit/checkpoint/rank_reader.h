// RankReader: the files of all ranks that have one, read side by side and handed out in rank order.
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

/// Threads read ahead: so many files that they take 64 MiB, by the largest pickle that was read so
/// far, but at most as many as there are threads, and one of any size. The first is read alone, to
/// know. What the caller sees does not depend on the number of threads: it takes rank after rank,
/// errors included.
class RankReader {
 public:
  /// @param folder   outlives the reader
  /// @param threads  >= 0; none, or where the system gives none: the caller reads every file
  RankReader(FileSystem& fs, const CheckpointFolder& folder, unsigned threads);
  /// Waits for the files being read.
  ~RankReader();

  /// The ranks whose files it reads, in order.
  const std::vector<std::int64_t>& ranks() const { return ranks_; }

  /// The next rank's file. Called once for each of ranks(), by one thread.
  /// @error as read_rank_file
  Result<RankFile> next();

 private:
  void work();

  FileSystem& fs_;
  const CheckpointFolder& folder_;
  std::vector<std::int64_t> ranks_;
  const std::uint64_t threads_wanted_;

  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::uint64_t largest_pickle_ = 0;  // bytes, of those read
  std::int64_t ahead_ = 1;            // how many ranks may be read before they are taken
  // Places in ranks_:
  std::int64_t to_start_ = 0;  // the next that nobody reads yet
  std::int64_t to_take_ = 0;   // the one that next() returns
  bool stopping_ = false;
  std::map<std::int64_t, Result<RankFile>> done_;

  std::vector<std::jthread> threads_;
};

}  // namespace shardkit
