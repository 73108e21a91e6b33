#include "shardkit/compare/compare_catalogs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "shardkit/compare/tensor_pairs.h"
#include "shardkit/io/file_cache.h"
#include "shardkit/plan/tensor_file_internal.h"
#include "shardkit/transfer/element_range.h"
#include "shardkit/transfer/range_reader.h"

namespace shardkit {
namespace {

constexpr std::size_t kOpenFiles = 32;
constexpr std::size_t kBufferBytes = 1 << 20;
/// The part of the second side, and the buffers of its reader.
constexpr std::size_t kPartBytes = 2 << 20;
static_assert(kLeastBudget + RangeReader::kBuffers * kBufferBytes + kPartBytes <=
              kLeastComparisonBudget);

/// Two tensors of one form, whose elements are to be compared.
struct Elements {
  std::string name;
  std::size_t first;  // index into Catalog::tensors
  std::size_t second;
  DType dtype;
};

/// Takes the first side's tensors, each as a file, and reads the second's beside them.
class ComparingSink final : public BlockSink {
 public:
  /// @param plan  of the second side: for each file of the transfer its counterpart
  ComparingSink(FileSystem& fs, const Plan& plan, const std::optional<Tolerance>& tolerance)
      : files_(fs, kOpenFiles),
        plan_(plan),
        tolerance_(tolerance),
        differences_(plan.files().size()) {}

  Status write(std::size_t file, std::uint64_t offset, std::span<const std::byte> part) override {
    const PlannedTensor& step = plan_.files()[file].tensors.front();
    const CatalogTensor& tensor = plan_.catalog().tensors[step.tensor];
    const auto item = static_cast<std::uint64_t>(item_bytes(step.dtype));
    std::unique_ptr<Side> side = take_side();
    if (!side->pieces || &side->pieces->tensor() != &tensor) side->pieces.emplace(tensor);
    // The transfer's parts of tensors in no order of rows may be larger than this side's buffer.
    ValueDifferences differences;
    for (std::uint64_t at = 0; at < part.size(); at += kPartBytes) {
      const auto bytes = std::min<std::uint64_t>(kPartBytes, part.size() - at);
      const auto begin = static_cast<std::int64_t>((offset + at) / item);
      SHARDKIT_TRY(side->reader.read(*side->pieces, begin,
                                     begin + static_cast<std::int64_t>(bytes / item), step.dtype,
                                     plan_.replicas(), side->part.get()));
      differences.add(compare_values(step.dtype, part.subspan(at, bytes),
                                     {side->part.get(), static_cast<std::size_t>(bytes)},
                                     tolerance_, begin));
    }
    const std::lock_guard lock(mutex_);
    differences_[file].add(differences);
    idle_.push_back(std::move(side));
    return {};
  }

  /// Where both sides become infinite, a cast hides how they differ: those of the first tell.
  void overflowed(std::size_t tensor, std::uint64_t values) override {
    const std::lock_guard lock(mutex_);
    overflows_[tensor] += values;
  }

  const ValueDifferences& differences(std::size_t file) const { return differences_[file]; }
  /// Of a tensor of the first side: values that became infinite as float16.
  std::uint64_t overflows(std::size_t tensor) const {
    const auto found = overflows_.find(tensor);
    return found == overflows_.end() ? 0 : found->second;
  }

 private:
  /// What reading the second side takes; one for each thread that compares.
  struct Side {
    explicit Side(FileCache& files)
        : reader(files, kBufferBytes),
          part(std::make_unique_for_overwrite<std::byte[]>(kPartBytes)) {}

    RangeReader reader;
    std::unique_ptr<std::byte[]> part;
    std::optional<PieceIndex> pieces;  // of the tensor that was read last
  };

  std::unique_ptr<Side> take_side() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<Side>(files_);
    std::unique_ptr<Side> side = std::move(idle_.back());
    idle_.pop_back();
    return side;
  }

  FileCache files_;
  const Plan& plan_;
  const std::optional<Tolerance> tolerance_;
  std::mutex mutex_;  // of all below
  std::vector<std::unique_ptr<Side>> idle_;
  std::vector<ValueDifferences> differences_;
  std::map<std::size_t, std::uint64_t> overflows_;
};

Result<TransferOptions> share_of_the_first(TransferOptions options) {
  if (options.memory_budget < kLeastComparisonBudget)
    return Error(ErrorCode::kInvalidArgument, "the memory budget is too small")
        .expected(fmt::format("at least {} bytes", kLeastComparisonBudget))
        .found(std::to_string(options.memory_budget));
  options.memory_budget = options.memory_budget / kLeastComparisonBudget * kLeastBudget;
  return options;
}

/// Appends what differs in the form of two tensors. @return whether anything does
bool differ_in_form(const std::string& name, const CatalogTensor& a, DType dtype_a,
                    const CatalogTensor& b, DType dtype_b, Comparison& result) {
  TensorDifference difference;
  difference.name = name;
  difference.elements = std::max(a.numel(), b.numel());
  if (dtype_a != dtype_b) {
    difference.kind = DifferenceKind::kDType;
    difference.first = torch_name(dtype_a);
    difference.second = torch_name(dtype_b);
    result.differences.push_back(difference);
  }
  if (a.shape_to_write() != b.shape_to_write()) {
    difference.kind = DifferenceKind::kShape;
    difference.first = to_string(a.shape_to_write());
    difference.second = to_string(b.shape_to_write());
    result.differences.push_back(difference);
  }
  return dtype_a != dtype_b || a.shape_to_write() != b.shape_to_write();
}

void sort_for_a_report(std::vector<TensorDifference>& differences) {
  std::stable_sort(differences.begin(), differences.end(),
                   [](const TensorDifference& a, const TensorDifference& b) {
                     if (a.kind != b.kind) return a.kind < b.kind;
                     if (a.values.largest_error != b.values.largest_error)
                       return a.values.largest_error > b.values.largest_error;
                     if (a.values.count != b.values.count) return a.values.count > b.values.count;
                     return a.elements > b.elements;
                   });
}

/// Compares what names, shapes and dtypes tell. @return what is left to be read
std::vector<Elements> compare_forms(const ComparedTensors& first, const ComparedTensors& second,
                                    Comparison& result) {
  TensorPairs pairs = pair_tensors(*first.catalog, *second.catalog, first.config, second.config);
  result.notes = std::move(pairs.notes);
  result.tensors = pairs.pairs.size();
  std::vector<Elements> to_read;
  for (const TensorPair& pair : pairs.pairs) {
    if (!pair.first || !pair.second) {
      TensorDifference difference;
      difference.name = pair.name;
      difference.kind = pair.first ? DifferenceKind::kOnlyInFirst : DifferenceKind::kOnlyInSecond;
      difference.elements = pair.first ? first.catalog->tensors[*pair.first].numel()
                                       : second.catalog->tensors[*pair.second].numel();
      result.differences.push_back(std::move(difference));
      continue;
    }
    const CatalogTensor& a = first.catalog->tensors[*pair.first];
    const CatalogTensor& b = second.catalog->tensors[*pair.second];
    const DType dtype = hf::output_dtype(first.dtype, a.name, a.dtype);
    if (!differ_in_form(pair.name, a, dtype, b, hf::output_dtype(second.dtype, b.name, b.dtype),
                        result))
      to_read.push_back({pair.name, *pair.first, *pair.second, dtype});
  }
  return to_read;
}

}  // namespace

Result<Comparison> compare_catalogs(FileSystem& fs, const ComparedTensors& first,
                                    const ComparedTensors& second,
                                    const ComparisonOptions& options) {
  SHARDKIT_ASSIGN(const TransferOptions transfer_options, share_of_the_first(options.transfer));
  Comparison result;
  const std::vector<Elements> to_read = compare_forms(first, second, result);
  std::vector<PlannedFile> first_files, second_files;
  for (const Elements& tensor : to_read) {
    first_files.push_back(internal::tensor_file(*first.catalog, tensor.first, tensor.dtype));
    second_files.push_back(internal::tensor_file(*second.catalog, tensor.second, tensor.dtype));
  }
  SHARDKIT_ASSIGN(const Plan first_plan,
                  Plan::make(first.catalog, std::move(first_files), options.replicas));
  SHARDKIT_ASSIGN(const Plan second_plan,
                  Plan::make(second.catalog, std::move(second_files), options.replicas));
  ComparingSink sink(fs, second_plan, options.tolerance);
  SHARDKIT_TRY(transfer(first_plan, fs, sink, transfer_options));
  for (std::size_t i = 0; i < to_read.size(); ++i) {
    const ValueDifferences& values = sink.differences(i);
    if (const std::uint64_t infinite = sink.overflows(to_read[i].first); infinite > 0)
      result.notes.push_back(fmt::format(
          "'{}': {} values of the first are too large for float16, and equal to any other that is",
          to_read[i].name, infinite));
    if (values.count == 0) {
      result.equal += 1;
      continue;
    }
    const CatalogTensor& tensor = first.catalog->tensors[to_read[i].first];
    TensorDifference difference;
    difference.name = to_read[i].name;
    difference.elements = tensor.numel();
    difference.values = values;
    difference.first_index = index_at(tensor.shape_to_write(), values.first_position);
    result.differences.push_back(std::move(difference));
  }
  sort_for_a_report(result.differences);
  return result;
}

}  // namespace shardkit
