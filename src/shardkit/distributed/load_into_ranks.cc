// Loading: names and layouts agreed on, then every rank reads for itself.
#include "shardkit/distributed/load_into_ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <unordered_map>
#include <utility>

#include "shardkit/collective/agreement.h"
#include "shardkit/distributed/targets_internal.h"
#include "shardkit/io/file_cache.h"
#include "shardkit/plan/plan.h"
#include "shardkit/state/memory.h"
#include "shardkit/state/pair_walk_internal.h"
#include "shardkit/tensor/accumulate.h"
#include "shardkit/transfer/element_range.h"
#include "shardkit/transfer/range_reader.h"

namespace shardkit {
namespace {

using internal::Target;

/// Files that a rank keeps open: with many ranks in a process, still fewer than it may have.
constexpr std::size_t kOpenFiles = 16;
constexpr std::size_t kBufferBytes = 1 << 20;

struct Work {
  std::vector<const CatalogTensor*> sources;
  std::vector<NamedTensorInfo> tensors;  ///< of the sources
  std::vector<Target> targets;
  LoadIntoRanksReport report;
};

Status check_not_guessed(const CatalogTensor& tensor) {
  if (!tensor.guessed) return {};
  return Error(ErrorCode::kIncomplete,
               "the checkpoint has plain tensors alone, which may be chunks or replicas; "
               "open_checkpoint() with PlainTensors::kConcat or kReplicate decides")
      .of_tensor(tensor.name);
}

Status check_readable(const CatalogTensor& tensor) {
  SHARDKIT_TRY(check_not_guessed(tensor));
  if (const Fold* fold = tensor.fold.get())
    for (const CatalogTensor* part : {fold->a.get(), fold->b.get(), fold->magnitude.get()})
      if (part) SHARDKIT_TRY(check_not_guessed(*part));
  SHARDKIT_TRY(prove_whole(tensor));
  if (!tensor.reduction) return {};
  auto wide = accumulator_dtype(*tensor.reduction, tensor.dtype);
  if (!wide.ok()) return std::move(wide).error().of_tensor(tensor.name);
  return {};
}

Result<Work> prepare(const Catalog& catalog, const Dict& local, const ProcessGroup& group,
                     const LoadIntoRanksOptions& options) {
  Work work;
  const auto keys = internal::index_keys(local);
  std::vector<bool> found(local.items.size(), false);
  for (const CatalogTensor& tensor : catalog.tensors) {
    const auto key = keys.find(tensor.name);
    if (key == keys.end() || !is_tensor(local.items[key->second].second)) {
      work.report.unused.push_back(tensor.name);
      continue;
    }
    found[key->second] = true;
    work.sources.push_back(&tensor);
    work.tensors.push_back({tensor.name, {tensor.shape, tensor.dtype}});
  }
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < local.items.size(); ++i)
    if (!found[i] && is_tensor(local.items[i].second))
      missing.push_back(internal::shown_key(local.items[i].first));
  if (!missing.empty())
    return Error(ErrorCode::kNotFound, fmt::format("the checkpoint has no tensor '{}'",
                                                   fmt::join(missing, "', '")));
  const auto dtypes =
      options.convert_floats ? internal::DTypes::kFloatsMayDiffer : internal::DTypes::kEqual;
  SHARDKIT_ASSIGN(work.targets,
                  internal::find_targets(local, keys, work.tensors, group, dtypes));
  for (const Target& target : work.targets)
    SHARDKIT_TRY(check_readable(*work.sources[target.tensor]));
  return work;
}

Status read_all(FileSystem& fs, const Work& work, std::span<const Target> targets,
                const internal::JointTargets& joint, int rank) {
  FileCache files(fs, kOpenFiles);
  RangeReader reader(files, kBufferBytes);
  for (const Target& target : targets) {
    const PieceIndex pieces(*work.sources[target.tensor]);
    const Tensor& local = target.local();
    SHARDKIT_ASSIGN(std::byte* const first, first_element(local));
    for (const BoxPair& box : joint.boxes(work.tensors[target.tensor], rank)) {
      std::byte* const at =
          first + position_of(box.local_offset, local.strides) * item_bytes(local.dtype);
      if (auto status = reader.read_box(pieces, box.global, local.dtype, at, local.strides);
          !status.ok())
        return std::move(status).error().of_tensor(work.tensors[target.tensor].name);
    }
  }
  return {};
}

}  // namespace

Result<LoadIntoRanksReport> load_into_ranks(FileSystem& fs, const Catalog& catalog, Dict& local,
                                   ProcessGroup& group, const LoadIntoRanksOptions& options) {
  Result<Work> work = prepare(catalog, local, group, options);
  Result<std::vector<Target>> mine = std::vector<Target>();
  if (work.ok()) {
    mine = std::move(work->targets);
  } else {
    mine = work.error();
    work = Work();
  }
  SHARDKIT_ASSIGN(const auto joint, internal::JointTargets::agree(group, work->tensors, mine));
  SHARDKIT_TRY(agree_on_status(group, read_all(fs, *work, *mine, joint, group.rank())));
  internal::install(*std::move(mine), local);
  return std::move(work->report);
}

}  // namespace shardkit
