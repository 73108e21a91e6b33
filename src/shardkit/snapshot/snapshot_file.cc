// Snapshots as files: written beside their names, renamed when all ranks are done.
#include "shardkit/snapshot/snapshot_file.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shardkit/base/random_number.h"
#include "shardkit/collective/agreement.h"
#include "shardkit/io/file_tree.h"
#include "shardkit/io/path.h"
#include "shardkit/layout/sharding.h"
#include "shardkit/safetensors/file_layout.h"
#include "shardkit/safetensors/header.h"
#include "shardkit/snapshot/snapshot_metadata_internal.h"

namespace shardkit {
namespace {

constexpr std::string_view kMetadataKey = "shardkit.snapshot";

Result<std::string> new_save_id() {
  SHARDKIT_ASSIGN(const std::uint64_t high, random_number());
  SHARDKIT_ASSIGN(const std::uint64_t low, random_number());
  return fmt::format("{:016x}{:016x}", high, low);
}

Status check_dims(const Dims& shape, const Sharding& spec, ErrorCode code) {
  if (shape.size() == spec.shape.size()) return {};
  return Error(code, "the tensor has not as many dimensions as its spec")
      .expected(std::to_string(spec.shape.size()))
      .found(std::to_string(shape.size()));
}

/// What read_snapshot() refuses is not written.
Status check_entries(const Snapshot& snapshot) {
  for (const SnapshotEntry& entry : snapshot.entries) {
    if (auto bytes = first_element(entry.tensor); !bytes.ok())
      return std::move(bytes).error().of_tensor(entry.name);
    if (!is_contiguous(entry.tensor))
      return Error(ErrorCode::kInvalidArgument, "a tensor of a snapshot must be contiguous")
          .of_tensor(entry.name);
    if (!entry.spec) continue;
    if (!entry.spec->mesh)
      return Error(ErrorCode::kInvalidArgument, "a spec without a mesh").of_tensor(entry.name);
    Status status = check_sharding(*entry.spec);
    if (status.ok())
      status = check_dims(entry.tensor.shape, *entry.spec, ErrorCode::kInvalidArgument);
    if (!status.ok()) return std::move(status).error().of_tensor(entry.name);
  }
  return {};
}

Result<safetensors::FileLayout> lay_out_file(const Snapshot& snapshot, std::string save_id,
                                             const ProcessGroup& group) {
  internal::SnapshotMetadata metadata;
  metadata.save_id = std::move(save_id);
  metadata.world_size = group.size();
  metadata.rank = group.rank();
  std::vector<safetensors::TensorSpec> specs;
  for (const SnapshotEntry& entry : snapshot.entries) {
    metadata.tensors.emplace_back(entry.name, entry.spec);
    specs.push_back({entry.name, entry.tensor.dtype, entry.tensor.shape});
  }
  SHARDKIT_ASSIGN(std::string text, internal::to_json(metadata));
  const std::pair<std::string, std::string> more(kMetadataKey, std::move(text));
  return safetensors::lay_out(specs, std::span(&more, 1));
}

Status write_file(FileSystem& fs, const std::string& path, const Snapshot& snapshot,
                  const safetensors::FileLayout& layout) {
  SHARDKIT_TRY(make_directories(fs, parent_path(path), Durability::kSynced));
  SHARDKIT_TRY(fs.remove_all(path));
  SHARDKIT_ASSIGN(const std::unique_ptr<WritableFile> file, fs.create(path));
  SHARDKIT_TRY(file->reserve(layout.file_bytes));
  SHARDKIT_TRY(file->write_at(0, std::as_bytes(std::span(layout.head))));
  for (const std::size_t i : layout.order) {
    const Tensor& tensor = snapshot.entries[i].tensor;
    SHARDKIT_ASSIGN(const std::byte* data, first_element(tensor));
    if (!data) continue;
    const auto bytes = static_cast<std::size_t>(tensor.bytes());
    SHARDKIT_TRY(file->write_at(layout.offsets[i], std::span(data, bytes)));
    file->start_writeback(layout.offsets[i], bytes);
  }
  SHARDKIT_TRY(file->sync());
  return file->close();
}

Status publish_file(FileSystem& fs, const std::string& part, const std::string& path) {
  SHARDKIT_TRY(fs.rename(part, path));
  return fs.sync_directory(parent_path(path));
}

/// This rank's file, and the save that it is of.
struct ReadFile {
  Snapshot snapshot;
  std::string save_id;
};

Result<internal::SnapshotMetadata> checked_metadata(const safetensors::Header& header,
                                                    const ProcessGroup& group) {
  for (const auto& [key, text] : header.metadata) {
    if (key != kMetadataKey) continue;
    SHARDKIT_ASSIGN(internal::SnapshotMetadata metadata, internal::metadata_from_json(text));
    if (metadata.world_size != group.size() || metadata.rank != group.rank())
      return Error(ErrorCode::kInvalidArgument, "the file is another rank's")
          .expected(fmt::format("rank {} of {}", group.rank(), group.size()))
          .found(fmt::format("rank {} of {}", metadata.rank, metadata.world_size));
    return metadata;
  }
  return Error(ErrorCode::kInvalidArgument, "a safetensors file without a snapshot's metadata");
}

Result<ReadFile> read_checked(const RandomAccessFile& file, const ProcessGroup& group,
                              const MemoryOptions& memory) {
  SHARDKIT_ASSIGN(const safetensors::Header header, safetensors::read_header(file));
  SHARDKIT_ASSIGN(const internal::SnapshotMetadata metadata, checked_metadata(header, group));
  std::unordered_map<std::string_view, const safetensors::TensorRecord*> records;
  for (const auto& record : header.tensors) records.emplace(record.name, &record);
  ReadFile read;
  read.save_id = metadata.save_id;
  for (const auto& [name, spec] : metadata.tensors) {
    const auto at = records.find(name);
    if (at == records.end())
      return Error(ErrorCode::kCorrupt, "the file has no tensor of this name, or names it twice")
          .of_tensor(name);
    const safetensors::TensorRecord& record = *at->second;
    records.erase(at);
    if (spec)
      if (auto status = check_dims(record.shape, *spec, ErrorCode::kCorrupt); !status.ok())
        return std::move(status).error().of_tensor(name);
    auto tensor = make_unfilled_cpu_tensor(record.dtype, record.shape, memory);
    if (!tensor.ok()) return std::move(tensor).error().of_tensor(name);
    SHARDKIT_ASSIGN(std::byte * data, first_element(*tensor));
    if (data)
      SHARDKIT_TRY(file.read_at(header.data_offset + record.begin,
                                std::span(data, static_cast<std::size_t>(tensor->bytes()))));
    read.snapshot.entries.push_back({name, *std::move(tensor), spec});
  }
  if (!records.empty())
    return Error(ErrorCode::kCorrupt, "the metadata does not name the tensor")
        .of_tensor(records.begin()->first);
  return read;
}

Result<ReadFile> read_file(FileSystem& fs, const std::string& path, const ProcessGroup& group,
                           const MemoryOptions& memory) {
  SHARDKIT_ASSIGN(const std::unique_ptr<RandomAccessFile> file, fs.open(path));
  auto read = read_checked(*file, group, memory);
  if (!read.ok()) return std::move(read).error().in_file(path);
  return read;
}

}  // namespace

std::string snapshot_file_name(int world_size, int rank) {
  return fmt::format("snapshot_world_size_{}_rank_{}.safetensors", world_size, rank);
}

Status write_snapshot(FileSystem& fs, const std::string& folder, const Snapshot& snapshot,
                      ProcessGroup& group) {
  Result<std::string> id = group.rank() == 0 ? new_save_id() : std::string();
  if (auto status = check_entries(snapshot); !status.ok()) id = std::move(status).error();
  SHARDKIT_ASSIGN(const auto ids, exchange_messages(group, std::move(id)));

  const std::string name = snapshot_file_name(group.size(), group.rank());
  const std::string place = resolved_path(folder);
  const std::string part = join_path(place, "." + name + ".part");
  const auto layout = lay_out_file(snapshot, ids[0], group);
  Status status;
  if (layout.ok())
    status = write_file(fs, part, snapshot, *layout);
  else
    status = layout.error();
  status = agree_on_status(group, std::move(status));
  if (status.ok()) status = agree_on_status(group, publish_file(fs, part, join_path(place, name)));
  // Nobody takes a part for a file; where it cannot be removed, the next save does it.
  if (!status.ok()) (void)fs.remove_all(part);
  return status;
}

Result<Snapshot> read_snapshot(FileSystem& fs, const std::string& folder, ProcessGroup& group,
                               const MemoryOptions& memory) {
  const std::string path = join_path(folder, snapshot_file_name(group.size(), group.rank()));
  auto read = read_file(fs, path, group, memory);
  Result<std::string> id = std::string();
  if (read.ok())
    id = read->save_id;
  else
    id = read.error();
  SHARDKIT_ASSIGN(const auto ids, exchange_messages(group, std::move(id)));
  for (std::size_t rank = 1; rank < ids.size(); ++rank)
    if (ids[rank] != ids[0])
      return Error(ErrorCode::kIncomplete,
                   fmt::format("the files of ranks 0 and {} are of different saves", rank))
          .in_file(folder);
  return std::move(read->snapshot);
}

}  // namespace shardkit
