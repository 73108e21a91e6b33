// BytesFile and BytesOutput: bytes in memory as files, for tests and fuzz targets.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "shardkit/io/file_system.h"

namespace shardkit::testing {

class BytesFile : public RandomAccessFile {
 public:
  explicit BytesFile(std::string_view bytes, std::string path = "bytes")
      : path_(std::move(path)), bytes_(bytes) {}

  const std::string& path() const override { return path_; }
  std::uint64_t size() const override { return bytes_.size(); }
  Status read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset)
      return Error(ErrorCode::kIo, "read beyond the end").in_file(path_).at_offset(offset);
    const auto all = std::as_bytes(std::span(bytes_));
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return {};
  }

 private:
  std::string path_;
  std::string bytes_;
};

class BytesOutput : public WritableFile {
 public:
  const std::string& bytes() const { return bytes_; }

  Status write_at(std::uint64_t offset, std::span<const std::byte> data) override {
    if (offset + data.size() > bytes_.size())
      bytes_.resize(static_cast<std::size_t>(offset) + data.size());
    const auto all = std::as_writable_bytes(std::span(bytes_));
    std::copy(data.begin(), data.end(), all.begin() + static_cast<std::ptrdiff_t>(offset));
    return {};
  }
  Status sync() override { return {}; }
  Status close() override { return {}; }

 private:
  std::string bytes_;
};

}  // namespace shardkit::testing
