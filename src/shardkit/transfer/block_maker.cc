#include "shardkit/transfer/block_maker.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace shardkit {
namespace {

/// Large enough that calls to the system cost little, small enough for the processor's cache.
constexpr std::size_t kPartBytes = 1 << 20;
static_assert(kBlockBytes % kPartBytes == 0);

}  // namespace

BlockMaker::BlockMaker(const Plan& plan, FileCache& files, BlockSink& sink,
                       std::size_t buffer_bytes)
    : plan_(plan),
      sink_(sink),
      reader_(files, buffer_bytes),
      part_capacity_(std::min(buffer_bytes / kPartBytes * kPartBytes, kBlockBytes)) {}

Status BlockMaker::make(std::size_t file, std::uint64_t offset, std::uint64_t bytes) {
  // Not cleared: pages that are never used take no memory.
  if (!part_) part_ = std::make_unique_for_overwrite<std::byte[]>(part_capacity_);
  SHARDKIT_ASSIGN(const bool kept, sink_.has(file, offset, bytes, {part_.get(), kPartBytes}));
  if (kept) return {};
  file_ = file;
  part_offset_ = offset;
  const PlannedFile& planned = plan_.files()[file];
  const std::uint64_t end = offset + bytes;
  if (offset < planned.head.size())
    SHARDKIT_TRY(add_head(planned.head, offset, std::min<std::uint64_t>(end, planned.head.size())));
  auto step = std::upper_bound(
      planned.tensors.begin(), planned.tensors.end(), offset,
      [](std::uint64_t at, const PlannedTensor& tensor) { return at < tensor.offset; });
  if (step != planned.tensors.begin()) --step;  // a tensor that began before the block
  for (; step != planned.tensors.end() && step->offset < end; ++step)
    SHARDKIT_TRY(add_tensor(*step, offset, end));
  SHARDKIT_TRY(flush());
  return sink_.end_block(file, offset, bytes, hasher_.finish());
}

Status BlockMaker::add_head(std::string_view head, std::uint64_t begin, std::uint64_t end) {
  while (begin < end) {
    const auto bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(end - begin, kPartBytes - part_bytes_));
    std::memcpy(part_.get() + part_bytes_, head.data() + begin, bytes);
    part_bytes_ += bytes;
    begin += bytes;
    if (part_bytes_ == kPartBytes) SHARDKIT_TRY(flush());
  }
  return {};
}

Status BlockMaker::add_tensor(const PlannedTensor& planned, std::uint64_t begin,
                              std::uint64_t end) {
  const CatalogTensor& tensor = plan_.catalog().tensors[planned.tensor];
  const auto item = static_cast<std::uint64_t>(item_bytes(planned.dtype));
  const std::uint64_t first = planned.offset;
  begin = std::max(begin, first);
  end = std::min(end, first + static_cast<std::uint64_t>(tensor.numel()) * item);
  if (begin >= end) return {};
  if (!pieces_ || &pieces_->tensor() != &tensor) pieces_.emplace(tensor);
  // A transposed source yields short runs: the larger the part, the longer they are.
  const std::size_t limit = pieces_->is_row_major() ? kPartBytes : part_capacity_;
  while (begin < end) {
    if (part_bytes_ >= limit) SHARDKIT_TRY(flush());
    const std::uint64_t bytes = std::min<std::uint64_t>(end - begin, limit - part_bytes_);
    if ((begin - first) % item != 0 || bytes % item != 0)
      return Error(ErrorCode::kInternal, "a block begins or ends inside an element")
          .of_tensor(tensor.name);
    const std::uint64_t overflows = reader_.overflows();
    SHARDKIT_TRY(reader_.read(*pieces_, static_cast<std::int64_t>((begin - first) / item),
                              static_cast<std::int64_t>((begin - first + bytes) / item),
                              planned.dtype, plan_.replicas(), part_.get() + part_bytes_));
    if (reader_.overflows() > overflows)
      sink_.overflowed(planned.tensor, reader_.overflows() - overflows);
    part_bytes_ += static_cast<std::size_t>(bytes);
    begin += bytes;
  }
  return {};
}

Status BlockMaker::flush() {
  if (part_bytes_ == 0) return {};
  const std::span<const std::byte> part(part_.get(), part_bytes_);
  hasher_.add(part);
  SHARDKIT_TRY(sink_.write(file_, part_offset_, part));
  part_offset_ += part_bytes_;
  part_bytes_ = 0;
  return {};
}

}  // namespace shardkit
