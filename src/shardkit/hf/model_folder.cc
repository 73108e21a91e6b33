// Lists the files of a Hugging Face folder that go with its weights.
#include "shardkit/hf/model_folder.h"

#include <algorithm>
#include <array>
#include <regex>
#include <utility>

#include <fmt/format.h>

#include "shardkit/io/path.h"

namespace shardkit::hf {
namespace {

constexpr std::size_t kMaxDepth = 16;
constexpr std::size_t kMaxEntries = 100'000;

/// Folders that belong to tools, not to the model.
constexpr std::array<std::string_view, 3> kSkippedFolders{".git", ".cache", "__pycache__"};

/// The Hugging Face cache keeps files in MODEL/blobs and links to them from
/// MODEL/snapshots/REVISION (huggingface_hub, "Understand caching"). The folder of the blobs, if
/// `root` is such a snapshot; else empty.
std::string blobs_of_snapshot(const std::string& root) {
  const std::size_t revision = root.rfind('/');
  if (revision == root.npos || revision == 0) return {};
  const std::string snapshots = root.substr(0, revision);
  if (base_name(snapshots) != "snapshots") return {};
  return join_path(snapshots.substr(0, snapshots.rfind('/')), "blobs");
}

class Lister {
 public:
  Lister(FileSystem& fs, const std::string& folder)
      : fs_(fs), folder_(folder), root_(resolved_path(folder)), blobs_(blobs_of_snapshot(root_)) {}

  Status list(const std::string& below, std::size_t depth);
  std::vector<SidecarFile> take() { return std::move(files_); }

 private:
  Status check_place(const std::string& below, FileKind kind) const;

  FileSystem& fs_;
  std::string folder_;  ///< as the caller named it, for messages
  std::string root_;    ///< without links
  std::string blobs_;
  std::size_t entries_ = 0;
  std::vector<SidecarFile> files_;
};

/// Refuses a link unless it leads to a file of the folder or of the cache it is a snapshot of.
Status Lister::check_place(const std::string& below, FileKind kind) const {
  const std::string expected = join_path(root_, below);
  const std::string real = resolved_path(expected);
  if (real == expected) return {};
  const auto refuse = [&](std::string_view what) {
    return Error(ErrorCode::kUnsafe, std::string(what))
        .in_file(join_path(folder_, below))
        .found(fmt::format("a link to '{}'", real));
  };
  if (kind == FileKind::kDirectory) return refuse("a model's folder may not hold links to folders");
  const bool of_cache = !blobs_.empty() && is_within(real, blobs_);
  if (of_cache || is_within(real, root_)) return {};
  return refuse("a link out of the model's folder is not followed; put the file itself there");
}

Status Lister::list(const std::string& below, std::size_t depth) {
  const std::string path = below.empty() ? root_ : join_path(root_, below);
  SHARDKIT_ASSIGN(const std::vector<DirectoryEntry> entries, fs_.list(path));
  entries_ += entries.size();
  if (entries_ > kMaxEntries)
    return Error(ErrorCode::kLimit, fmt::format("more than {} files in a model's folder",
                                                kMaxEntries)).in_file(folder_);
  for (const DirectoryEntry& entry : entries) {
    const std::string name = below.empty() ? entry.name : join_path(below, entry.name);
    if (entry.info.kind == FileKind::kDirectory) {
      if (std::find(kSkippedFolders.begin(), kSkippedFolders.end(), entry.name) !=
          kSkippedFolders.end())
        continue;
      if (depth == kMaxDepth)
        return Error(ErrorCode::kLimit, fmt::format("folders nest deeper than {}", kMaxDepth))
            .in_file(join_path(folder_, name));
      SHARDKIT_TRY(check_place(name, entry.info.kind));
      SHARDKIT_TRY(list(name, depth + 1));
    } else if (!is_weight_file(entry.name)) {
      if (entry.info.kind != FileKind::kRegular)
        return Error(ErrorCode::kUnsupported, "neither a file nor a folder, or a dangling link")
            .in_file(join_path(folder_, name));
      SHARDKIT_TRY(check_place(name, entry.info.kind));
      files_.push_back({name, entry.info.bytes});
    }
  }
  return {};
}

}  // namespace

bool is_weight_file(std::string_view file_name) {
  // transformers utils/__init__.py (WEIGHTS_NAME ...) with modeling_utils.py _add_variant; the
  // others as their writers name them.
  static const std::regex kPatterns(
      R"(.*\.safetensors|.*\.gguf)"
      R"(|.*\.(safetensors|bin|h5|msgpack)\.index(\.[^.]+)?\.json)"
      R"(|(pytorch_model|adapter_model|model)(\.[^.]+)?(-\d{5}-of-\d{5})?\.bin)"
      R"(|(pytorch_model|model|consolidated)(\.\d+)?\.(pt|pth))"
      R"(|tf_model(\.[^.]+)?(-\d{5}-of-\d{5})?\.h5)"
      R"(|flax_model(\.[^.]+)?(-\d{5}-of-\d{5})?\.msgpack)"
      R"(|model\.ckpt(-\d+)?\.(index|meta|data-\d{5}-of-\d{5}))"
      R"(|rust_model\.ot|openvino_model\.(bin|xml))"
      R"(|((encoder_|decoder_|decoder_with_past_)?model)(_\w+)?\.onnx(_data|\.data)?)"
      R"(|.*\.distcp|(model|optim|extra_state)_world_size_\d+_rank_\d+\.pt)",
      std::regex::ECMAScript | std::regex::optimize);
  // std::regex recurses for each character; no name of a file is longer than 255.
  return file_name.size() <= 255 &&
         std::regex_match(file_name.begin(), file_name.end(), kPatterns);
}

Result<std::vector<SidecarFile>> list_sidecars(FileSystem& fs, const std::string& folder) {
  Lister lister(fs, folder);
  SHARDKIT_TRY(lister.list("", 0));
  auto files = lister.take();
  std::sort(files.begin(), files.end(),
            [](const SidecarFile& a, const SidecarFile& b) { return a.path < b.path; });
  return files;
}

}  // namespace shardkit::hf
