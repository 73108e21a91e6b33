#include "shardkit/transfer/output_blocks.h"

#include <algorithm>

namespace shardkit {

OutputBlocks::OutputBlocks(std::span<const PlannedFile> files) {
  for (const PlannedFile& file : files) {
    first_.push_back(count_);
    start_.push_back(bytes_);
    count_ += (file.bytes + kBlockBytes - 1) / kBlockBytes;
    bytes_ += file.bytes;
  }
}

OutputBlocks::Place OutputBlocks::at(std::uint64_t block) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), block);
  const auto file = static_cast<std::size_t>(after - first_.begin()) - 1;
  return {file, (block - first_[file]) * kBlockBytes};
}

BlockRange OutputBlocks::of_file(std::size_t file, const BlockRange& range) const {
  const std::uint64_t end = file + 1 < first_.size() ? first_[file + 1] : count_;
  const std::uint64_t begin = std::max(first_[file], range.begin);
  return {begin, std::max(begin, std::min(end, range.end))};
}

BlockRange OutputBlocks::share(int share, int shares) const {
  // The first block that begins at or after share/shares of all bytes.
  const auto boundary = [this, shares](int number) {
    const auto n = static_cast<std::uint64_t>(number);
    const auto of = static_cast<std::uint64_t>(shares);
    const std::uint64_t least = bytes_ / of * n + bytes_ % of * n / of;
    std::uint64_t low = 0;
    for (std::uint64_t high = count_; low < high;) {
      const std::uint64_t middle = low + (high - low) / 2;
      const Place place = at(middle);
      if (start_[place.file] + place.offset < least) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  };
  return {boundary(share), share + 1 == shares ? count_ : boundary(share + 1)};
}

}  // namespace shardkit
