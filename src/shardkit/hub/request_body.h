// RequestBody: what a request sends, read as it goes out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"

namespace shardkit::hub {

class RequestBody {
 public:
  virtual ~RequestBody() = default;

  virtual std::uint64_t size() const = 0;
  /// Fills `out` with the bytes from `offset` on; the same bytes each time, for a request may have
  /// to be sent again. REQUIRES: they end within size().
  virtual Status read(std::uint64_t offset, std::span<std::byte> out) = 0;
};

class TextBody : public RequestBody {
 public:
  explicit TextBody(std::string text) : text_(std::move(text)) {}

  std::uint64_t size() const override { return text_.size(); }
  Status read(std::uint64_t offset, std::span<std::byte> out) override {
    const auto from = std::as_bytes(std::span(text_)).subspan(static_cast<std::size_t>(offset));
    std::copy_n(from.begin(), out.size(), out.begin());
    return {};
  }

 private:
  std::string text_;
};

/// Bytes [offset, offset + bytes) of a file.
class FileRangeBody : public RequestBody {
 public:
  FileRangeBody(std::shared_ptr<const RandomAccessFile> file, std::uint64_t offset,
                std::uint64_t bytes)
      : file_(std::move(file)), offset_(offset), bytes_(bytes) {}

  std::uint64_t size() const override { return bytes_; }
  Status read(std::uint64_t offset, std::span<std::byte> out) override {
    return file_->read_at(offset_ + offset, out);
  }

 private:
  std::shared_ptr<const RandomAccessFile> file_;
  std::uint64_t offset_;
  std::uint64_t bytes_;
};

}  // namespace shardkit::hub
