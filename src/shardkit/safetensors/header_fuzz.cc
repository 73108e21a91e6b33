// Fuzz target: a header that read_header takes describes every byte of the data exactly once.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "shardkit/safetensors/header.h"

namespace {

class MemoryFile : public shardkit::RandomAccessFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  const std::string& path() const override { return path_; }
  std::uint64_t size() const override { return size_; }
  shardkit::Status read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset > size_ || out.size() > size_ - offset) std::abort();  // asked beyond the end
    if (!out.empty()) std::memcpy(out.data(), data_ + offset, out.size());
    return {};
  }

 private:
  std::string path_ = "fuzz";
  const std::uint8_t* data_;
  std::size_t size_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto header = shardkit::safetensors::read_header(MemoryFile(data, size));
  if (!header.ok()) return 0;
  std::uint64_t at = 0;
  for (const auto& tensor : header->tensors) {
    if (tensor.begin != at || tensor.end < tensor.begin) std::abort();
    at = tensor.end;
  }
  if (header->data_offset + at != size) std::abort();
  return 0;
}
