// Any bytes as a .pt file: no crash, and every tensor of the tree inside its storage and the file.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "shardkit/testing/bytes_file.h"
#include "shardkit/torch_pt/reader.h"

namespace {

using namespace shardkit;

void check(const Tensor& tensor, std::uint64_t size) {
  if (!check_view(tensor).ok()) std::abort();
  const FileRange* range = tensor.storage->file();
  if (range && (range->offset > size || tensor.storage->bytes() > size - range->offset))
    std::abort();
}

void check(const Value& value, std::uint64_t size) {
  if (const auto* tensor = value.get_if<Tensor>()) check(*tensor, size);
  if (const auto* tensor = value.get_if<DTensor>()) {
    check(tensor->local, size);
    if (!check_sharding(*tensor->sharding).ok()) std::abort();
  }
  if (const auto* tensor = value.get_if<ShardedTensor>())
    for (const auto& shard : tensor->local_shards) check(shard.tensor, size);
  if (const auto* list = value.get_if<List>())
    for (const Value& item : list->items) check(item, size);
  if (const auto* tuple = value.get_if<Tuple>())
    for (const Value& item : tuple->items) check(item, size);
  if (const auto* opaque = value.get_if<Opaque>())
    for (const Value& item : opaque->state) check(item, size);
  if (const auto* dict = value.get_if<Dict>())
    for (const auto& [key, item] : dict->items) check(item, size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const testing::BytesFile file({reinterpret_cast<const char*>(data), size});
  const auto read = read_pt(file);
  if (read.ok())
    check(read->root, size);
  else if (read.error().code() == ErrorCode::kIo || read.error().code() == ErrorCode::kInternal)
    std::abort();
  return 0;
}
