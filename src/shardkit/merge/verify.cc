#include "shardkit/merge/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "shardkit/checkpoint/discover.h"
#include "shardkit/io/file_cache.h"
#include "shardkit/io/file_tree.h"
#include "shardkit/io/path.h"
#include "shardkit/merge/decide_output.h"
#include "shardkit/merge/manifest.h"
#include "shardkit/merge/merge_source.h"
#include "shardkit/transfer/block_hash.h"

namespace shardkit {
namespace {

constexpr std::size_t kOpenFiles = 16;

Result<Manifest> read_manifest(FileSystem& fs, const std::string& folder) {
  const std::string path = join_path(folder, kManifestName);
  SHARDKIT_ASSIGN(const std::string text, read_whole_file(fs, path, kManifestLimit));
  auto manifest = parse_manifest(text);
  if (!manifest.ok()) return std::move(manifest).error().in_file(path);
  return manifest;
}

/// The size of a file of the folder, if it is there.
std::optional<std::uint64_t> size_of(FileSystem& fs, const std::string& path) {
  const auto info = fs.info(path);
  if (!info.ok() || info->kind != FileKind::kRegular) return std::nullopt;
  return info->bytes;
}

/// Notes a file that is missing or of another size; such a file is not read.
bool has_size(FileSystem& fs, const std::string& folder, const std::string& name,
              std::uint64_t bytes, VerifyReport& report) {
  const auto found = size_of(fs, join_path(folder, name));
  if (!found) {
    report.differences.push_back(fmt::format("{}: missing", name));
  } else if (*found != bytes) {
    report.differences.push_back(fmt::format("{}: {} bytes, expected {}", name, *found, bytes));
  }
  return found == bytes;
}

Status check_hashes(FileSystem& fs, const std::string& folder, const ManifestFile& listed,
                    VerifyReport& report) {
  SHARDKIT_ASSIGN(const auto file, fs.open(join_path(folder, listed.name)));
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::min<std::uint64_t>(kBlockBytes, listed.bytes)));
  for (std::size_t i = 0; i < listed.hashes.size(); ++i) {
    const std::uint64_t at = i * kBlockBytes;
    const auto bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(kBlockBytes, listed.bytes - at));
    const auto block = std::span(buffer).first(bytes);
    SHARDKIT_TRY(file->read_at(at, block));
    if (block_hash(block) != listed.hashes[i])
      report.differences.push_back(
          fmt::format("{}: bytes {} to {} are not what was written", listed.name, at, at + bytes));
  }
  report.files += 1;
  report.bytes += listed.bytes;
  return {};
}

/// Compares with the files of a folder. The first difference of each block is noted, and no error:
/// the rest is compared all the same.
class CompareSink final : public BlockSink {
 public:
  CompareSink(FileSystem& fs, std::string folder, const Plan& plan)
      : files_(fs, kOpenFiles), folder_(std::move(folder)), plan_(plan) {}

  Status write(std::size_t file, std::uint64_t offset, std::span<const std::byte> part) override {
    const PlannedFile& planned = plan_.files()[file];
    if (skipped_.contains(planned.name)) return {};
    SHARDKIT_ASSIGN(const auto written, files_.open(join_path(folder_, planned.name)));
    std::vector<std::byte> found(part.size());
    SHARDKIT_TRY(written->read_at(offset, found));
    const auto differ = std::mismatch(part.begin(), part.end(), found.begin());
    if (differ.first == part.end()) return {};
    const auto at = offset + static_cast<std::uint64_t>(differ.first - part.begin());
    const std::lock_guard lock(mutex_);
    differences_.emplace(
        std::pair(file, offset / kBlockBytes),
        fmt::format("{}: differs from byte {} on, in {}", planned.name, at, place(planned, at)));
    return {};
  }

  void skip(const std::string& name) { skipped_.insert(name); }

  std::vector<std::string> differences() const {
    std::vector<std::string> texts;
    for (const auto& [where, text] : differences_) texts.push_back(text);
    return texts;
  }

 private:
  std::string place(const PlannedFile& file, std::uint64_t at) const {
    const auto after = std::upper_bound(
        file.tensors.begin(), file.tensors.end(), at,
        [](std::uint64_t offset, const PlannedTensor& tensor) { return offset < tensor.offset; });
    if (after == file.tensors.begin()) return "the header";
    return fmt::format("tensor '{}'", plan_.catalog().tensors[std::prev(after)->tensor].name);
  }

  FileCache files_;
  const std::string folder_;
  const Plan& plan_;
  std::set<std::string> skipped_;
  std::mutex mutex_;
  std::map<std::pair<std::size_t, std::uint64_t>, std::string> differences_;
};

}  // namespace

Result<VerifyReport> verify_folder(FileSystem& fs, const std::string& folder) {
  SHARDKIT_ASSIGN(const Manifest manifest, read_manifest(fs, folder));
  VerifyReport report;
  report.folder = folder;
  std::set<std::string> listed = {std::string(kManifestName)};
  for (const ManifestFile& file : manifest.files) {
    listed.insert(file.name);
    if (has_size(fs, folder, file.name, file.bytes, report))
      SHARDKIT_TRY(check_hashes(fs, folder, file, report));
  }
  SHARDKIT_ASSIGN(const auto present, list_files(fs, folder));
  for (const std::string& name : present)
    if (!listed.contains(name)) report.unlisted.push_back(name);
  return report;
}

Result<VerifyReport> verify_against_checkpoint(FileSystem& fs, const std::string& folder,
                                               std::span<const std::string> local_dirs,
                                               const TransferOptions& options,
                                               const std::string& base_model_dir) {
  SHARDKIT_ASSIGN(const Manifest manifest, read_manifest(fs, folder));
  SHARDKIT_ASSIGN(CheckpointFolder checkpoint,
                  discover_checkpoint(fs, local_dirs, MissingRanks::kAllowed));
  // The folder's own config decides ties, as the one it was copied from did.
  SHARDKIT_ASSIGN(
      const MergeSource source,
      open_merge_source(fs, std::move(checkpoint), folder, manifest.choices.plain, base_model_dir));
  SHARDKIT_ASSIGN(const OutputDecision decision,
                  decide_output(fs, source, manifest.choices, TensorBytes::kRead));
  VerifyReport report;
  report.folder = folder;
  const Plan& plan = decision.output.plan;
  CompareSink sink(fs, folder, plan);
  for (const PlannedFile& file : plan.files()) {
    if (!has_size(fs, folder, file.name, file.bytes, report)) {
      sink.skip(file.name);
      continue;
    }
    report.files += 1;
    report.bytes += file.bytes;
  }
  SHARDKIT_TRY(transfer(plan, fs, sink, options));
  for (std::string& difference : sink.differences())
    report.differences.push_back(std::move(difference));
  return report;
}

}  // namespace shardkit
