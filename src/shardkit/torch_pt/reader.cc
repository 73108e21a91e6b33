#include "shardkit/torch_pt/reader.h"

#include <algorithm>
#include <utility>

#include "shardkit/pickle/parse.h"
#include "shardkit/torch_pt/globals.h"
#include "shardkit/torch_pt/objects.h"
#include "shardkit/torch_pt/records.h"
#include "shardkit/torch_pt/tensor_reader.h"
#include "shardkit/torch_pt/tree_builder.h"

namespace shardkit {
namespace {

/// The memory that a tree may take. A node takes sizeof(Value), and a pickler spends a byte or
/// more on each, so that only objects that are shared over and over exceed this.
std::uint64_t tree_budget(std::uint64_t pickle_bytes) {
  constexpr std::uint64_t kFloor = 16u << 20;
  constexpr std::uint64_t kCeiling = std::uint64_t{4} << 30;
  return std::min(kCeiling, kFloor + 2 * sizeof(Value) * pickle_bytes);
}

Result<std::pair<Value, PtOrigin>> read_tree(PtRecords& records) {
  SHARDKIT_ASSIGN(std::string data, records.read_pickle());
  const std::uint64_t budget = tree_budget(data.size());
  SHARDKIT_ASSIGN(const pickle::Graph graph,
                  pickle::parse(std::move(data), {.allow = is_allowed_global,
                                                  .base_offset = records.pickle_offset()}));
  PtObjects objects(graph, budget);
  SHARDKIT_TRY(objects.check_calls());
  TensorReader tensors(objects, records);
  SHARDKIT_ASSIGN(Value root, TreeBuilder(objects, tensors).build());
  return std::pair(std::move(root), objects.origin());
}

}  // namespace

Result<PtFile> read_pt(const RandomAccessFile& file, const PtReadOptions& options) {
  SHARDKIT_ASSIGN(PtRecords records, PtRecords::open(file, options.verify_crc));
  auto tree = read_tree(records);
  if (!tree.ok()) return std::move(tree).error().in_file(file.path());
  return PtFile{std::move(tree->first), file.size(), records.pickle_bytes(),
                records.directory_crc(), tree->second};
}

Result<PtFile> read_pt(FileSystem& fs, const std::string& path, const PtReadOptions& options) {
  SHARDKIT_ASSIGN(const auto file, fs.open(path));
  return read_pt(*file, options);
}

}  // namespace shardkit
