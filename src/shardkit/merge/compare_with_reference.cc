#include "shardkit/merge/compare_with_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "shardkit/base/checked_math.h"
#include "shardkit/io/file_cache.h"
#include "shardkit/merge/tensor_file_internal.h"
#include "shardkit/transfer/element_range.h"
#include "shardkit/transfer/range_reader.h"

namespace shardkit {
namespace {

constexpr std::size_t kOpenFiles = 16;
constexpr std::size_t kBufferBytes = 1 << 20;
constexpr std::int64_t kEqual = std::numeric_limits<std::int64_t>::max();

/// A tensor of the reference as what a RangeReader reads: one piece.
CatalogTensor whole_tensor(const std::string& name, const Tensor& tensor) {
  CatalogTensor result;
  result.name = name;
  result.dtype = tensor.dtype;
  result.shape = tensor.shape;
  Piece piece;
  piece.box = whole(tensor.shape);
  piece.strides = tensor.strides;
  piece.offset = tensor.offset;
  piece.storage = tensor.storage;
  if (!piece.box.empty()) result.pieces = {std::move(piece)};
  return result;
}

/// Two tensors of one form, whose elements are to be compared.
struct Pair {
  std::size_t tensor;  // index into Catalog::tensors
  CatalogTensor reference;
  std::int64_t first_other = kEqual;  // row-major
};

/// Takes each merged tensor as a file of its own.
class ReferenceSink final : public BlockSink {
 public:
  ReferenceSink(FileSystem& fs, std::vector<Pair>& pairs) : files_(fs, kOpenFiles), pairs_(pairs) {}

  Status write(std::size_t file, std::uint64_t offset, std::span<const std::byte> part) override {
    Pair& pair = pairs_[file];
    const auto item = static_cast<std::uint64_t>(item_bytes(pair.reference.dtype));
    const auto begin = static_cast<std::int64_t>(offset / item);
    const auto end = begin + static_cast<std::int64_t>(part.size() / item);
    std::vector<std::byte> expected(part.size());
    RangeReader reader(files_, kBufferBytes);
    SHARDKIT_TRY(reader.read(PieceIndex(pair.reference), begin, end, pair.reference.dtype,
                             ReplicaPolicy::kFirst, expected.data()));
    const auto differ = std::mismatch(part.begin(), part.end(), expected.begin()).first;
    if (differ == part.end()) return {};
    const auto byte = static_cast<std::uint64_t>(differ - part.begin());
    const std::lock_guard lock(mutex_);
    pair.first_other = std::min(pair.first_other, begin + static_cast<std::int64_t>(byte / item));
    return {};
  }

 private:
  FileCache files_;
  std::vector<Pair>& pairs_;
  std::mutex mutex_;
};

/// The tensors of the reference by name, each of which may be believed.
Result<std::unordered_map<std::string, const Tensor*>> tensors_of(const Dict& reference) {
  std::unordered_map<std::string, const Tensor*> tensors;
  for (const auto& [key, value] : reference.items) {
    const auto* name = key.get_if<std::string>();
    const auto* tensor = value.get_if<Tensor>();
    if (name != nullptr && (value.get_if<DTensor>() || value.get_if<ShardedTensor>()))
      return Error(ErrorCode::kInvalidArgument, "a reference holds whole tensors")
          .of_tensor(*name)
          .found(kind_name(value));
    if (name == nullptr || tensor == nullptr) continue;
    if (tensor->storage->is_meta())
      return Error(ErrorCode::kInvalidArgument, "a tensor of the reference has no bytes (meta)")
          .of_tensor(*name);
    if (Status status = check_view(*tensor); !status.ok())
      return std::move(status).error().of_tensor(*name);
    tensors[*name] = tensor;
  }
  return tensors;
}

Difference difference(const std::string& name, std::string what) {
  return {StatePath{{name}}, std::move(what)};
}

/// Whether the merge writes a tensor, for each of the catalog.
std::vector<bool> written_tensors(const Plan& plan) {
  std::vector<bool> written(plan.catalog().tensors.size(), false);
  for (const PlannedFile& file : plan.files())
    for (const PlannedTensor& step : file.tensors) written[step.tensor] = true;
  return written;
}

/// Streams the pairs' merged tensors past the reference.
Status compare_elements(FileSystem& fs, const MergeSource& source, ReplicaPolicy replicas,
                        std::vector<Pair>& pairs, const TransferOptions& options) {
  std::vector<PlannedFile> files;
  for (const Pair& pair : pairs)
    files.push_back(internal::tensor_file(*source.catalog, pair.tensor, pair.reference.dtype));
  SHARDKIT_ASSIGN(const Plan comparison,
                  Plan::make(source.catalog, std::move(files), replicas));
  ReferenceSink sink(fs, pairs);
  return transfer(comparison, fs, sink, options);
}

}  // namespace

Result<std::vector<Difference>> compare_with_reference(FileSystem& fs,
                                                       const MergeSource& source,
                                                       const OutputDecision& decision,
                                                       const Dict& reference,
                                                       const TransferOptions& options) {
  SHARDKIT_ASSIGN(auto expected, tensors_of(reference));
  const std::vector<CatalogTensor>& tensors = source.catalog->tensors;
  const std::vector<bool> written = written_tensors(decision.output.plan);
  // What each tensor of the catalog differs in by its form; its place in `pairs` if in nothing.
  std::vector<std::string> form(tensors.size());
  std::vector<std::optional<std::size_t>> place(tensors.size());
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto found = expected.find(tensors[i].name);
    if (found == expected.end()) {
      if (written[i]) form[i] = "not in the reference";
      continue;
    }
    const Tensor& other = *found->second;
    expected.erase(found);
    const DType dtype = hf::output_dtype(decision.choices.dtype, tensors[i].dtype);
    if (dtype != other.dtype) {
      form[i] = fmt::format("{} against {}", torch_name(dtype), torch_name(other.dtype));
    } else if (tensors[i].shape != other.shape) {
      form[i] = fmt::format("shape {} against {}", to_string(tensors[i].shape),
                            to_string(other.shape));
    } else {
      place[i] = pairs.size();
      pairs.push_back({i, whole_tensor(tensors[i].name, other)});
    }
  }
  SHARDKIT_TRY(compare_elements(fs, source, decision.choices.replicas, pairs, options));

  std::vector<Difference> differences;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!form[i].empty()) differences.push_back(difference(tensors[i].name, std::move(form[i])));
    if (!place[i] || pairs[*place[i]].first_other == kEqual) continue;
    const Dims index = index_at(tensors[i].shape, pairs[*place[i]].first_other);
    differences.push_back(difference(tensors[i].name,
                                     fmt::format("other bytes at {}", to_string(index))));
  }
  for (const auto& [key, value] : reference.items)
    if (const auto* name = key.get_if<std::string>(); name != nullptr && expected.contains(*name))
      differences.push_back(difference(*name, "only in the reference"));
  return differences;
}

}  // namespace shardkit
