// Any bytes as a zip file: no crash, no read outside the file, every entry found by its name.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "shardkit/testing/bytes_file.h"
#include "shardkit/zip/archive.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const shardkit::testing::BytesFile file({reinterpret_cast<const char*>(data), size});
  const auto archive = shardkit::zip::Archive::open(file);
  if (!archive.ok()) {
    if (archive.error().code() == shardkit::ErrorCode::kIo) std::abort();
    return 0;
  }
  for (const auto& entry : archive->entries()) {
    if (archive->find(entry.name) != &entry) std::abort();
    const auto content = shardkit::zip::read_entry(file, entry, size);
    if (!content.ok() && content.error().code() != shardkit::ErrorCode::kCorrupt) std::abort();
  }
  return 0;
}
