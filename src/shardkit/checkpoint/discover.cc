#include "shardkit/checkpoint/discover.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "shardkit/io/equal_files.h"
#include "shardkit/io/path.h"
#include "shardkit/json/parse.h"
#include "shardkit/json/value.h"

namespace shardkit {
namespace {

constexpr std::uint64_t kSmallFileLimit = 1 << 20;
/// No run has more ranks; a file name with more is a mistake or an attack.
constexpr std::int64_t kMaxWorldSize = 1 << 20;

struct RankFileName {
  std::int64_t world_size;
  std::int64_t rank;
};

/// Reads an integer off the front of `text`; digits only.
std::optional<std::int64_t> take_integer(std::string_view& text) {
  std::int64_t value = 0;
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// "model_world_size_8_rank_3.pt"
std::optional<RankFileName> parse_rank_file_name(std::string_view name) {
  if (!take(name, "model_world_size_")) return std::nullopt;
  const auto world_size = take_integer(name);
  if (!world_size || !take(name, "_rank_")) return std::nullopt;
  const auto rank = take_integer(name);
  if (!rank || name != ".pt") return std::nullopt;
  return RankFileName{*world_size, *rank};
}

/// Rank files: world size -> rank -> paths (several: a rank is doubled).
using FilesOfRanks = std::map<std::int64_t, std::vector<std::string>>;
using RankFiles = std::map<std::int64_t, FilesOfRanks>;

/// A folder that holds rank files.
struct ShardFolder {
  std::string path;
  std::vector<DirectoryEntry> entries;
};

bool has_rank_files(const std::vector<DirectoryEntry>& entries) {
  return std::any_of(entries.begin(), entries.end(), [](const DirectoryEntry& entry) {
    return parse_rank_file_name(entry.name).has_value();
  });
}

RankFiles rank_files_in(const std::vector<ShardFolder>& folders) {
  RankFiles files;
  for (const ShardFolder& folder : folders)
    for (const DirectoryEntry& entry : folder.entries)
      if (const auto name = parse_rank_file_name(entry.name))
        files[name->world_size][name->rank].push_back(join_path(folder.path, entry.name));
  return files;
}

/// The N of the last "global_step_N" in a path: the step that verl saved there.
std::optional<std::int64_t> step_of(const std::string& folder) {
  constexpr std::string_view kPrefix = "global_step_";
  for (std::string path = resolved_path(folder); !base_name(path).empty();
       path = parent_path(path)) {
    const std::string name = base_name(path);
    if (!name.starts_with(kPrefix)) continue;
    std::string_view rest = std::string_view(name).substr(kPrefix.size());
    if (const auto step = take_integer(rest); step && rest.empty()) return step;
  }
  return std::nullopt;
}

/// Shards of two steps would join without a sign: hosts of a run that died may differ by a step.
Status check_one_step(const std::vector<ShardFolder>& folders) {
  const ShardFolder* first = nullptr;
  for (const ShardFolder& folder : folders) {
    const auto step = step_of(folder.path);
    if (!step) continue;
    if (first == nullptr) first = &folder;
    if (const auto other = step_of(first->path); *other != *step)
      return Error(ErrorCode::kIncomplete, "the folders are of two steps of training")
          .in_file(folder.path)
          .expected(fmt::format("step {}, as of '{}'", *other, first->path))
          .found(fmt::format("step {}", *step));
  }
  return {};
}

/// The folders, for messages.
std::string place(const std::string& first, const std::vector<std::string>& more) {
  return fmt::format("{}{}{}", first, more.empty() ? "" : "', '", fmt::join(more, "', '"));
}

const DirectoryEntry* find_entry(const std::vector<DirectoryEntry>& entries, std::string_view name,
                                 FileKind kind) {
  for (const DirectoryEntry& entry : entries)
    if (entry.name == name && entry.info.kind == kind) return &entry;
  return nullptr;
}

struct FsdpConfig {
  std::int64_t world_size;
  std::optional<std::int64_t> fsdp_version;
};

Result<std::optional<FsdpConfig>> read_fsdp_config(FileSystem& fs, const std::string& folder,
                                                   const std::vector<DirectoryEntry>& entries) {
  constexpr std::string_view kName = "fsdp_config.json";
  if (find_entry(entries, kName, FileKind::kRegular) == nullptr) return std::optional<FsdpConfig>();
  const std::string path = join_path(folder, kName);
  SHARDKIT_ASSIGN(const std::string text, read_whole_file(fs, path, kSmallFileLimit));
  auto parsed = json::parse(text);
  if (!parsed.ok()) return std::move(parsed).error().in_file(path);
  const json::Value* world_size = parsed->find("world_size");
  const auto number = world_size != nullptr ? world_size->as_int64() : std::nullopt;
  if (!number || *number < 1 || *number > kMaxWorldSize)
    return Error(ErrorCode::kCorrupt, "world_size is missing, or no number of ranks").in_file(path);
  FsdpConfig config{*number, std::nullopt};
  if (const json::Value* version = parsed->find("FSDP_version"))
    config.fsdp_version = version->as_int64();
  return std::optional(config);
}

/// What the folders' fsdp_config.json say together; nothing where none has one.
Result<std::optional<FsdpConfig>> read_fsdp_configs(FileSystem& fs,
                                                    const std::vector<ShardFolder>& folders) {
  std::optional<FsdpConfig> config;
  for (const ShardFolder& folder : folders) {
    SHARDKIT_ASSIGN(const auto here, read_fsdp_config(fs, folder.path, folder.entries));
    if (!here) continue;
    const auto refuse = [&](std::string expected, std::string found) {
      return Error(ErrorCode::kIncomplete, "the folders' fsdp_config.json are of two checkpoints")
          .in_file(folder.path)
          .expected(std::move(expected))
          .found(std::move(found));
    };
    if (config && config->world_size != here->world_size)
      return refuse(fmt::format("world size {}", config->world_size),
                    fmt::format("world size {}", here->world_size));
    if (config && config->fsdp_version && here->fsdp_version &&
        *config->fsdp_version != *here->fsdp_version)
      return refuse(fmt::format("FSDP_version {}", *config->fsdp_version),
                    fmt::format("FSDP_version {}", *here->fsdp_version));
    if (!config || !config->fsdp_version) config = here;
  }
  return config;
}

std::string found_ranks(const FilesOfRanks& files) {
  std::vector<std::int64_t> ranks;
  for (const auto& [rank, paths] : files) ranks.push_back(rank);
  return rank_list(ranks);
}

/// Which of the world sizes in the folders is the checkpoint's.
Result<std::int64_t> choose_world_size(const RankFiles& files, const std::string& where,
                                       const std::optional<FsdpConfig>& config,
                                       std::vector<std::string>& notes) {
  if (config && files.contains(config->world_size)) {
    for (const auto& [world_size, ranks] : files)
      if (world_size != config->world_size)
        notes.push_back(fmt::format(
            "left aside: {} files of world size {}, model_world_size_{}_rank_R.pt of ranks {} "
            "(fsdp_config.json says {})",
            ranks.size(), world_size, world_size, found_ranks(ranks), config->world_size));
    return config->world_size;
  }
  std::vector<std::string> sets;
  for (const auto& [world_size, ranks] : files)
    sets.push_back(fmt::format("world size {} with ranks {}", world_size, found_ranks(ranks)));
  if (config)
    return Error(ErrorCode::kIncomplete, "fsdp_config.json and the file names disagree")
        .in_file(where)
        .expected(fmt::format("files of world size {}", config->world_size))
        .found(fmt::format("{}", fmt::join(sets, "; ")));
  if (files.size() > 1)
    return Error(ErrorCode::kIncomplete,
                 "shards of several world sizes, and no fsdp_config.json to decide")
        .in_file(where)
        .found(fmt::format("{}", fmt::join(sets, "; ")));
  const std::int64_t world_size = files.begin()->first;
  notes.push_back(
      fmt::format("no fsdp_config.json: world size {} taken from the file names", world_size));
  return world_size;
}

/// A rank has one file, or equal ones in several folders.
Status check_copies(FileSystem& fs, std::int64_t rank, const std::vector<std::string>& paths,
                    std::vector<std::string>& notes) {
  for (std::size_t i = 1; i < paths.size(); ++i) {
    if (parent_path(paths[i]) == parent_path(paths[i - 1]))
      return Error(ErrorCode::kIncomplete, fmt::format("rank {} has several files", rank))
          .in_file(parent_path(paths[i]))
          .found(fmt::format("{}, {}", base_name(paths[i - 1]), base_name(paths[i])));
    SHARDKIT_ASSIGN(const bool equal, files_are_equal(fs, paths.front(), paths[i]));
    if (!equal)
      return Error(ErrorCode::kIncomplete,
                   fmt::format("two folders hold different files of rank {}", rank))
          .in_file(paths[i])
          .expected(fmt::format("the bytes of '{}'", paths.front()));
  }
  if (paths.size() > 1)
    notes.push_back(fmt::format("rank {} is in {} folders, with equal bytes; '{}' was taken", rank,
                                paths.size(), paths.front()));
  return {};
}

/// Which folder comes first must not decide whose config is taken.
void find_hf_folders(const std::vector<ShardFolder>& folders, CheckpointFolder& checkpoint) {
  const std::string& rank_zero = checkpoint.rank_files.front();  // empty: missing
  for (const ShardFolder& folder : folders) {
    if (find_entry(folder.entries, "huggingface", FileKind::kDirectory) == nullptr) continue;
    std::string path = join_path(folder.path, "huggingface");
    if (!checkpoint.hf_folder) {
      checkpoint.hf_folder = std::move(path);
    } else {
      if (!rank_zero.empty() && parent_path(path) == parent_path(rank_zero))
        std::swap(path, *checkpoint.hf_folder);
      checkpoint.other_hf_folders.push_back(std::move(path));
    }
  }
}

/// The checkpoint whose rank files are in `folders`.
Result<CheckpointFolder> read_folders(FileSystem& fs, const std::vector<ShardFolder>& folders,
                                      MissingRanks missing) {
  SHARDKIT_TRY(check_one_step(folders));
  const RankFiles files = rank_files_in(folders);
  CheckpointFolder checkpoint;
  checkpoint.path = folders.front().path;
  for (std::size_t i = 1; i < folders.size(); ++i)
    checkpoint.more_folders.push_back(folders[i].path);
  const std::string where = place(checkpoint.path, checkpoint.more_folders);
  SHARDKIT_ASSIGN(const auto config, read_fsdp_configs(fs, folders));
  SHARDKIT_ASSIGN(checkpoint.world_size, choose_world_size(files, where, config, checkpoint.notes));
  if (checkpoint.world_size < 1 || checkpoint.world_size > kMaxWorldSize)
    return Error(ErrorCode::kLimit, "a world size out of range in the file names")
        .in_file(where)
        .found(std::to_string(checkpoint.world_size));
  if (config) checkpoint.fsdp_version = config->fsdp_version;

  const FilesOfRanks& ranks = files.at(checkpoint.world_size);
  if (const auto& [rank, paths] = *ranks.rbegin(); rank >= checkpoint.world_size)
    return Error(ErrorCode::kIncomplete, "a file's rank is not below its world size")
        .in_file(paths.front());
  for (std::int64_t rank = 0; rank < checkpoint.world_size; ++rank) {
    const auto found = ranks.find(rank);
    checkpoint.rank_files.push_back(found == ranks.end() ? "" : found->second.front());
    if (found == ranks.end()) checkpoint.missing_ranks.push_back(rank);
  }
  if (missing == MissingRanks::kRefused && !checkpoint.missing_ranks.empty())
    return missing_ranks_error(checkpoint);
  for (const auto& [rank, paths] : ranks)
    SHARDKIT_TRY(check_copies(fs, rank, paths, checkpoint.notes));
  find_hf_folders(folders, checkpoint);
  return checkpoint;
}

/// The number in latest_checkpointed_iteration.txt, if the file is there.
Result<std::optional<std::int64_t>> latest_step(FileSystem& fs, const std::string& folder,
                                                const std::vector<DirectoryEntry>& entries) {
  constexpr std::string_view kName = "latest_checkpointed_iteration.txt";
  if (find_entry(entries, kName, FileKind::kRegular) == nullptr)
    return std::optional<std::int64_t>();
  const std::string path = join_path(folder, kName);
  SHARDKIT_ASSIGN(const std::string text, read_whole_file(fs, path, kSmallFileLimit));
  std::string_view rest = text;
  while (!rest.empty() && std::isspace(static_cast<unsigned char>(rest.front())))
    rest.remove_prefix(1);
  const auto step = take_integer(rest);
  while (!rest.empty() && std::isspace(static_cast<unsigned char>(rest.front())))
    rest.remove_prefix(1);
  if (!step || !rest.empty())
    return Error(ErrorCode::kCorrupt, "the file should hold the number of a step, alone")
        .in_file(path);
  return step;
}

/// Folders below `folder` that hold rank files, as deep as a run's root needs: root, step, role.
Status collect_below(FileSystem& fs, const std::string& folder, int levels,
                     std::vector<std::string>& found) {
  SHARDKIT_ASSIGN(const auto entries, fs.list(folder));
  for (const DirectoryEntry& entry : entries) {
    if (entry.info.kind != FileKind::kDirectory || entry.name.starts_with('.')) continue;
    const std::string below = join_path(folder, entry.name);
    auto inside = fs.list(below);
    if (!inside.ok()) continue;  // a folder that we may not look into is no choice
    if (has_rank_files(*inside)) {
      found.push_back(below);
    } else if (levels > 1) {
      SHARDKIT_TRY(collect_below(fs, below, levels - 1, found));
    }
  }
  return {};
}

Error no_shards_error(FileSystem& fs, const std::string& path,
                      const std::vector<DirectoryEntry>& entries) {
  for (const DirectoryEntry& entry : entries)
    if (entry.name == ".metadata" || entry.name.ends_with(".distcp"))
      return Error(ErrorCode::kUnsupported,
                   "this is a torch.distributed.checkpoint folder, which shardkit does not read")
          .in_file(path);
  const std::string parent = resolved_path(join_path(path, ".."));
  if (const auto above = fs.list(parent); above.ok() && has_rank_files(*above))
    return Error(ErrorCode::kNotFound,
                 fmt::format("no shards here; give the folder above, '{}'", parent))
        .in_file(path);
  for (const DirectoryEntry& entry : entries)
    if (entry.name.ends_with(".safetensors"))
      return Error(ErrorCode::kNotFound, "no shards here; this is a finished model folder")
          .in_file(path);
  return Error(ErrorCode::kNotFound, "no FSDP shards here or in the folders below")
      .in_file(path)
      .expected("model_world_size_N_rank_R.pt");
}

/// The folder with rank files at or below a path.
Result<ShardFolder> find_shard_folder(FileSystem& fs, const std::string& path) {
  SHARDKIT_ASSIGN(const FileInfo info, fs.info(path));
  if (info.kind != FileKind::kDirectory)
    return Error(ErrorCode::kInvalidArgument,
                 "this is a file; give the folder that holds the shards")
        .in_file(path);
  SHARDKIT_ASSIGN(auto entries, fs.list(path));
  if (has_rank_files(entries)) return ShardFolder{path, std::move(entries)};

  std::vector<std::string> choices;
  SHARDKIT_ASSIGN(const auto step, latest_step(fs, path, entries));
  if (step) {
    const std::string step_folder = join_path(path, fmt::format("global_step_{}", *step));
    if (!fs.info(step_folder).ok())
      return Error(ErrorCode::kNotFound,
                   "latest_checkpointed_iteration.txt names a step that is "
                   "not there")
          .in_file(step_folder);
    return find_shard_folder(fs, step_folder);
  }
  SHARDKIT_TRY(collect_below(fs, path, 2, choices));
  if (choices.empty()) return no_shards_error(fs, path, entries);
  if (choices.size() > 1)
    return Error(ErrorCode::kInvalidArgument, "several checkpoints here; give one of these folders")
        .in_file(path)
        .found(fmt::format("{}", fmt::join(choices, ", ")));
  return find_shard_folder(fs, choices.front());
}

}  // namespace

std::string rank_list(const std::vector<std::int64_t>& sorted_ranks) {
  std::string text;
  for (std::size_t i = 0; i < sorted_ranks.size();) {
    std::size_t last = i;
    while (last + 1 < sorted_ranks.size() && sorted_ranks[last + 1] == sorted_ranks[last] + 1)
      ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(sorted_ranks[i]);
    if (last > i) text += fmt::format("-{}", sorted_ranks[last]);
    i = last + 1;
  }
  return text;
}

Error missing_ranks_error(const CheckpointFolder& folder) {
  std::vector<std::int64_t> found;
  for (std::int64_t rank = 0; rank < folder.world_size; ++rank)
    if (!folder.rank_files[static_cast<std::size_t>(rank)].empty()) found.push_back(rank);
  return Error(ErrorCode::kIncomplete,
               "the files of some ranks are missing (each host may have kept its own: --local-dir "
               "may be given several times)")
      .in_file(place(folder.path, folder.more_folders))
      .expected(fmt::format("ranks 0-{}", folder.world_size - 1))
      .found(
          fmt::format("ranks {}; missing: {}", rank_list(found), rank_list(folder.missing_ranks)));
}

Result<CheckpointFolder> discover_checkpoint(FileSystem& fs, const std::string& path,
                                             MissingRanks missing) {
  return discover_checkpoint(fs, {&path, 1}, missing);
}

Result<CheckpointFolder> discover_checkpoint(FileSystem& fs, std::span<const std::string> paths,
                                             MissingRanks missing) {
  if (paths.empty())
    return Error(ErrorCode::kInvalidArgument, "no folder of a checkpoint is given");
  std::vector<ShardFolder> folders;
  std::set<std::string> seen;
  for (const std::string& path : paths) {
    SHARDKIT_ASSIGN(ShardFolder folder, find_shard_folder(fs, path));
    if (seen.insert(resolved_path(folder.path)).second) folders.push_back(std::move(folder));
  }
  return read_folders(fs, folders, missing);
}

}  // namespace shardkit
