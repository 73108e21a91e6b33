// Loading: names and layouts agreed on, then every rank reads for itself.
#include "shardkit/distributed/load_into_ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "shardkit/collective/agreement.h"
#include "shardkit/collective/message.h"
#include "shardkit/distributed/targets_internal.h"
#include "shardkit/io/file_cache.h"
#include "shardkit/io/path.h"
#include "shardkit/plan/plan.h"
#include "shardkit/state/memory.h"
#include "shardkit/state/pair_walk_internal.h"
#include "shardkit/tensor/accumulate.h"
#include "shardkit/transfer/block_hash.h"
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
    return Error(ErrorCode::kNotFound,
                 fmt::format("the checkpoint has no tensor '{}'", fmt::join(missing, "', '")));
  const auto dtypes =
      options.convert_floats ? internal::DTypes::kFloatsMayDiffer : internal::DTypes::kEqual;
  SHARDKIT_ASSIGN(work.targets, internal::find_targets(local, keys, work.tensors, group, dtypes));
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
  return internal::check_twins(targets, work.tensors);
}

// Files of a checkpoint by name: their folder may be another one on each host.
using Copies = std::map<std::string, std::string>;

Result<Copies> decode_copies(std::string_view message) {
  MessageReader in(message);
  Copies copies;
  SHARDKIT_ASSIGN(const std::size_t count, in.count());
  for (std::size_t i = 0; i < count; ++i) {
    SHARDKIT_ASSIGN(std::string name, in.text());
    SHARDKIT_ASSIGN(copies[std::move(name)], in.text());
  }
  SHARDKIT_TRY(in.expect_end());
  return copies;
}

/// Whether ranks that have a file of one name have the same one: it may be another step's. Where
/// hosts kept the replicas of their own ranks alone, not all have the same files.
/// @param ready  or why this rank cannot load
Status agree_on_copies(ProcessGroup& group, const Catalog& catalog, const Status& ready) {
  MessageWriter out;
  out.put(static_cast<std::int64_t>(catalog.files.size()));
  for (const SourceFile& file : catalog.files) {
    out.put(base_name(file.path));
    out.put(fmt::format("{} bytes, directory CRC {:08x}", file.bytes, file.directory_crc));
  }
  const std::string mine = std::move(out).take();
  const std::uint64_t hash = block_hash(std::as_bytes(std::span(mine)));
  Result<std::string> message = std::to_string(hash);
  if (!ready.ok()) message = ready.error();
  SHARDKIT_ASSIGN(const auto hashes, exchange_messages(group, std::move(message)));
  if (std::count(hashes.begin(), hashes.end(), hashes.front()) == group.size()) return {};

  SHARDKIT_ASSIGN(const auto messages, exchange_messages(group, mine));
  struct Known {
    std::size_t rank;
    std::string copy;
  };
  std::map<std::string, Known> known;
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    SHARDKIT_ASSIGN(const Copies copies, decode_copies(messages[rank]));
    for (const auto& [name, copy] : copies) {
      const auto [first, added] = known.try_emplace(name, Known{rank, copy});
      if (first->second.copy != copy)
        return Error(ErrorCode::kIncomplete,
                     fmt::format("ranks {} and {} differ in their copies of '{}'",
                                 first->second.rank, rank, name))
            .expected(first->second.copy)
            .found(copy);
    }
  }
  return {};
}

}  // namespace

Result<LoadIntoRanksReport> load_into_ranks(FileSystem& fs, const Catalog& catalog, Dict& local,
                                            ProcessGroup& group,
                                            const LoadIntoRanksOptions& options) {
  Result<Work> work = prepare(catalog, local, group, options);
  SHARDKIT_TRY(agree_on_copies(group, catalog, work.ok() ? Status() : Status(work.error())));
  const Result<std::vector<Target>> mine = std::move(work->targets);
  SHARDKIT_ASSIGN(const auto joint, internal::JointTargets::agree(group, work->tensors, mine));
  SHARDKIT_TRY(agree_on_status(group, read_all(fs, *work, *mine, joint, group.rank())));
  internal::install(*mine, local);
  return std::move(work->report);
}

}  // namespace shardkit
