// Storage: the bytes that tensors are views of, in memory or in a file not read yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

namespace shardkit {

/// Bytes [offset, offset + Storage::bytes()) of a file.
struct FileRange {
  std::shared_ptr<const std::string> path;  ///< shared by all storages of the file
  std::uint64_t offset = 0;
};

/// Bytes in memory; `owner` keeps them alive.
struct MemoryBlock {
  std::shared_ptr<void> owner;
  std::byte* data = nullptr;
};

/// No bytes at all: PyTorch's meta device.
struct NoBytes {};

/// A run of bytes that tensors look at. Immutable in place and size; always held by shared_ptr, so
/// that two tensors share memory exactly when they hold the same Storage (tied weights).
class Storage {
 public:
  using Place = std::variant<FileRange, MemoryBlock, NoBytes>;

  Storage(Place place, std::uint64_t bytes) : place_(std::move(place)), bytes_(bytes) {}

  std::uint64_t bytes() const { return bytes_; }
  const FileRange* file() const { return std::get_if<FileRange>(&place_); }
  const MemoryBlock* memory() const { return std::get_if<MemoryBlock>(&place_); }
  bool is_meta() const { return std::holds_alternative<NoBytes>(place_); }

 private:
  Place place_;
  std::uint64_t bytes_;
};

}  // namespace shardkit
