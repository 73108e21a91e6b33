#include "shardkit/merge/small_file_writer.h"

#include <algorithm>
#include <span>

#include "shardkit/transfer/block_hash.h"
#include "shardkit/transfer/transfer.h"

namespace shardkit {

Status SmallFileWriter::write(std::string_view name, std::string_view text) {
  SHARDKIT_ASSIGN(const auto target, stage_.create_file(name));
  ManifestFile entry{std::string(name), text.size(), {}};
  const auto bytes = std::as_bytes(std::span(text));
  for (std::size_t at = 0; at < bytes.size(); at += kBlockBytes) {
    const auto block = bytes.subspan(at, std::min(kBlockBytes, bytes.size() - at));
    SHARDKIT_TRY(target->write_at(at, block));
    entry.hashes.push_back(block_hash(block));
  }
  files_.push_back(std::move(entry));
  return stage_.finish_file(*target);
}

Status SmallFileWriter::copy(const std::string& from, std::string_view name) {
  SHARDKIT_ASSIGN(const auto source, fs_.open(from));
  SHARDKIT_ASSIGN(const auto target, stage_.create_file(name));
  ManifestFile entry{std::string(name), source->size(), {}};
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::min<std::uint64_t>(kBlockBytes, source->size())));
  for (std::uint64_t at = 0; at < source->size(); at += kBlockBytes) {
    const auto bytes = std::min<std::uint64_t>(kBlockBytes, source->size() - at);
    const auto block = std::span(buffer).first(static_cast<std::size_t>(bytes));
    SHARDKIT_TRY(source->read_at(at, block));
    SHARDKIT_TRY(target->write_at(at, block));
    entry.hashes.push_back(block_hash(block));
  }
  files_.push_back(std::move(entry));
  return stage_.finish_file(*target);
}

}  // namespace shardkit
