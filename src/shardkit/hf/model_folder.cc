// Lists the files of a Hugging Face folder that go with its weights.
#include "shardkit/hf/model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

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

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

/// Removes `ending` from `name` if it is there.
bool cut_ending(std::string_view& name, std::string_view ending) {
  if (!name.ends_with(ending)) return false;
  name.remove_suffix(ending.size());
  return true;
}

/// Whether a name without its ending is one of `stems`, as such, as a part ("-00001-of-00002"), of
/// a variant (".fp16"; transformers modeling_utils.py, _add_variant), or both.
bool is_weights_stem(std::string_view stem, std::initializer_list<std::string_view> stems) {
  constexpr std::size_t kPartLength = std::string_view("-00001-of-00002").size();
  if (stem.size() > kPartLength) {
    const std::string_view part = stem.substr(stem.size() - kPartLength);
    if (part[0] == '-' && is_digits(part.substr(1, 5)) && part.substr(6, 4) == "-of-" &&
        is_digits(part.substr(10)))
      stem.remove_suffix(kPartLength);
  }
  const std::size_t dot = stem.find('.');
  const bool one_variant = dot == stem.npos || stem.find('.', dot + 1) == stem.npos;
  return one_variant && std::find(stems.begin(), stems.end(), stem.substr(0, dot)) != stems.end();
}

/// "X.index.json" or "X.index.VARIANT.json" for a file X of weights.
bool is_index(std::string_view name) {
  if (!cut_ending(name, ".json")) return false;
  if (!cut_ending(name, ".index")) {
    const std::size_t variant = name.rfind('.');
    if (variant == name.npos) return false;
    name = name.substr(0, variant);
    if (!cut_ending(name, ".index")) return false;
  }
  for (const std::string_view ending : {".safetensors", ".bin", ".h5", ".msgpack"})
    if (name.ends_with(ending)) return true;
  return false;
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
    return Error(ErrorCode::kLimit,
                 fmt::format("more than {} files in a model's folder", kMaxEntries))
        .in_file(folder_);
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
      files_.push_back({name, entry.info.bytes, entry.info.modified_ns});
    }
  }
  return {};
}

}  // namespace

bool is_weight_file(std::string_view file_name) {
  for (const std::string_view ending : {".safetensors", ".gguf", ".distcp"})
    if (file_name.ends_with(ending)) return true;
  if (is_index(file_name) || file_name.starts_with("model.ckpt") || file_name == "rust_model.ot" ||
      file_name == "openvino_model.bin" || file_name == "openvino_model.xml")
    return true;

  std::string_view stem = file_name;
  if (cut_ending(stem, ".bin"))
    return is_weights_stem(stem, {"pytorch_model", "adapter_model", "model"});
  if (cut_ending(stem, ".h5")) return is_weights_stem(stem, {"tf_model"});
  if (cut_ending(stem, ".msgpack")) return is_weights_stem(stem, {"flax_model"});
  if (cut_ending(stem, ".pth"))
    return is_weights_stem(stem, {"pytorch_model", "model", "consolidated"});
  if (cut_ending(stem, ".pt")) {
    for (const std::string_view start :
         {"model_world_size_", "optim_world_size_", "extra_state_world_size_"})
      if (stem.starts_with(start)) return true;
    return is_weights_stem(stem, {"pytorch_model", "model", "consolidated"});
  }
  if (cut_ending(stem, ".onnx") || cut_ending(stem, ".onnx_data") || cut_ending(stem, ".onnx.data"))
    for (const std::string_view part : {"", "encoder_", "decoder_", "decoder_with_past_"}) {
      if (!stem.starts_with(part)) continue;
      const std::string_view rest = stem.substr(part.size());
      if (rest == "model" || rest.starts_with("model_")) return true;
    }
  return false;
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
