#include "shardkit/checkpoint/open.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "shardkit/checkpoint/rank_reader.h"
#include "shardkit/io/path.h"

namespace shardkit {

namespace {

/// Whether several plain shards cut one dimension.
bool cuts_a_dimension_twice(const Sharding& sharding) {
  std::vector<std::int64_t> cut;
  for (std::size_t d = 0; d < sharding.placements.size(); ++d) {
    const auto* shard = std::get_if<Shard>(&sharding.placements[d]);
    if (shard == nullptr || sharding.mesh->shape()[d] == 1) continue;
    if (std::find(cut.begin(), cut.end(), shard->dim) != cut.end()) return true;
    cut.push_back(shard->dim);
  }
  return false;
}

/// PyTorch 2.4's FSDP2 says of its rows under tensor parallelism what FSDP1 says truly of its own.
Status check_row_order_is_known(const Catalog& catalog) {
  for (const CatalogTensor& tensor : catalog.tensors)
    if (tensor.sharding && cuts_a_dimension_twice(*tensor.sharding))
      return Error(ErrorCode::kUnsupported,
                   "written by PyTorch 2.4 or older, whose FSDP2 over tensor parallelism stores "
                   "rows in another order than it says; load it there and save it again with "
                   "PyTorch 2.5 or newer")
          .of_tensor(tensor.name)
          .found(describe_layout(tensor));
  return {};
}

/// An error of joining the ranks that are there, where others are missing.
Error with_missing_ranks(Error error, const CheckpointFolder& folder) {
  if (folder.missing_ranks.empty() || error.code() != ErrorCode::kIncomplete) return error;
  const Error missing = missing_ranks_error(folder);
  Error both(ErrorCode::kIncomplete, fmt::format("{}, and {}", missing.what(), error.what()));
  if (error.tensor()) both = std::move(both).of_tensor(*error.tensor());
  return std::move(both)
      .in_file(*missing.file())
      .expected(*missing.expected_text())
      .found(*missing.found_text());
}

/// Ranks that are there and that no distributed tensor is read from.
std::vector<std::int64_t> ranks_passed_over(const Catalog& catalog) {
  std::vector<bool> read(static_cast<std::size_t>(catalog.world_size), false);
  for (const std::int64_t rank : catalog.missing_ranks) read[static_cast<std::size_t>(rank)] = true;
  for (const CatalogTensor& tensor : catalog.tensors) {
    if (!tensor.sharding) continue;
    for (const Piece& piece : tensor.pieces) read[static_cast<std::size_t>(piece.rank)] = true;
  }
  std::vector<std::int64_t> ranks;
  for (std::size_t rank = 0; rank < read.size(); ++rank)
    if (!read[rank]) ranks.push_back(static_cast<std::int64_t>(rank));
  return ranks;
}

/// Which copies could not be compared because their ranks were not there.
std::string tell_missing_ranks(const Catalog& catalog) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> tensors;  // {missing, of how many}
  for (const CatalogTensor& tensor : catalog.tensors)
    tensors[{tensor.missing_replicas, tensor.missing_replicas + tensor.replicas}] += 1;
  std::vector<std::string> copies;
  for (const auto& [counts, count] : tensors)
    copies.push_back(
        fmt::format("{} of {} copies of {} tensors", counts.first, counts.second, count));
  std::string text = fmt::format(
      "ranks {} are missing; the others hold every tensor whole. Not there to be "
      "compared: {}",
      rank_list(catalog.missing_ranks), fmt::join(copies, ", "));
  if (const auto unread = ranks_passed_over(catalog); !unread.empty())
    text += fmt::format(
        "; ranks {} are there, but hold no other copy whole: their shards are not "
        "compared",
        rank_list(unread));
  return text;
}

/// Each keeps one file open; more than some do not make a disk faster.
unsigned reading_threads(std::int64_t world_size) {
  constexpr std::int64_t kMost = 16;
  const std::int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  return static_cast<unsigned>(std::min({cores, kMost, world_size}));
}

}  // namespace

Result<RankFile> read_rank_file(FileSystem& fs, const CheckpointFolder& folder, std::int64_t rank,
                                const PtReadOptions& options) {
  if (rank < 0 || rank >= folder.world_size)
    return Error(ErrorCode::kInvalidArgument, "no such rank")
        .in_file(folder.path)
        .expected(fmt::format("ranks 0-{}", folder.world_size - 1))
        .found(std::to_string(rank));
  const std::string& path = folder.rank_files[static_cast<std::size_t>(rank)];
  if (path.empty()) return missing_ranks_error(folder);
  SHARDKIT_ASSIGN(const FileInfo info, fs.info(path));
  SHARDKIT_ASSIGN(PtFile file, read_pt(fs, path, options));
  if (file.origin.rank && *file.origin.rank != rank)
    return Error(ErrorCode::kIncomplete, "the file is another rank's")
        .in_file(path)
        .expected(fmt::format("rank {}, as its name says", rank))
        .found(fmt::format("a file that rank {} wrote", *file.origin.rank));
  SourceFile source{path, info.bytes, info.modified_ns, file.directory_crc};
  return RankFile{std::move(file), std::move(source)};
}

Result<Catalog> open_checkpoint(FileSystem& fs, const CheckpointFolder& folder,
                                PlainTensors plain) {
  CatalogBuilder builder(folder.world_size, folder.missing_ranks);
  std::vector<SourceFile> sources;
  bool before_strided_shard = false;
  std::optional<Error> first_error;
  std::string others;
  RankReader reader(fs, folder, reading_threads(folder.world_size));
  for (const std::int64_t rank : reader.ranks()) {
    const std::string& path = folder.rank_files[static_cast<std::size_t>(rank)];
    auto file = reader.next();
    if (!file.ok()) {
      if (first_error) {
        others += fmt::format("; also '{}': {}", base_name(path), file.error().what());
      } else {
        first_error = std::move(file).error();
      }
      continue;
    }
    // After an error the rest is still read, so that one run names every bad file.
    if (first_error) continue;
    SHARDKIT_TRY(builder.add(rank, path, file->content.root));
    sources.push_back(std::move(file->source));
    before_strided_shard = before_strided_shard || file->content.origin.before_strided_shard;
  }
  if (first_error) {
    if (others.empty()) return *std::move(first_error);
    return Error(first_error->code(), first_error->message() + others);
  }
  auto joined = std::move(builder).finish(plain);
  if (!joined.ok()) return with_missing_ranks(std::move(joined).error(), folder);
  Catalog catalog = *std::move(joined);
  if (!folder.missing_ranks.empty()) catalog.warnings.push_back(tell_missing_ranks(catalog));
  catalog.files = std::move(sources);
  if (before_strided_shard && folder.fsdp_version != 1)
    SHARDKIT_TRY(check_row_order_is_known(catalog));
  return catalog;
}

}  // namespace shardkit
