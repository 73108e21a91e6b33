#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "shardkit/hub/base64.h"
#include "shardkit/hub/folder_upload_internal.h"
#include "shardkit/io/path.h"

namespace shardkit::hub {
namespace {

// A Hub's commits time out when they are large (huggingface_hub 2.4, _upload_pipeline.py).
constexpr std::size_t kMostCommitFiles = 250;
constexpr std::uint64_t kMostCommitContent = 100'000'000;
constexpr std::size_t kSampleBytes = 512;
constexpr std::size_t kReadBytes = 1 << 20;
constexpr std::uint64_t kLargestGitignore = 1 << 20;
constexpr std::string_view kDefaultMessage = "Upload model with shardkit";

Result<std::string> first_bytes(FileSystem& fs, const std::string& path, std::uint64_t most) {
  SHARDKIT_ASSIGN(const auto file, fs.open(path));
  std::string bytes(static_cast<std::size_t>(std::min(most, file->size())), '\0');
  SHARDKIT_TRY(file->read_at(0, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

std::string cache_folder(const Environment& environment) {
  if (const auto cache = environment("XDG_CACHE_HOME"); cache && !cache->empty()) return *cache;
  return join_path(environment("HOME").value_or("/"), ".cache");
}

}  // namespace

Result<std::unique_ptr<UploadJournal>> open_journal(FileSystem& fs, const std::string& folder,
                                                    const UploadOptions& options,
                                                    const HubSession& session) {
  const std::string identity = fmt::format("{} {} {} {}", session.access.endpoint.text(),
                                           options.repo, options.branch, resolved_path(folder));
  SHARDKIT_ASSIGN(Digest digest, Digest::make(Digest::Kind::kSha256));
  digest.add(std::as_bytes(std::span(identity)));
  SHARDKIT_ASSIGN(const std::string name, digest.finish());
  const std::string place = join_path(cache_folder(session.environment), "shardkit/uploads");
  return UploadJournal::open(fs, join_path(place, name.substr(0, 32) + ".jsonl"), identity);
}

FolderUpload::FolderUpload(FileSystem& fs, const std::string& folder, const UploadOptions& options,
                           HubSession& session, RepoApi& api, UploadJournal& journal,
                           std::vector<FolderFile> files)
    : fs_(fs),
      folder_(folder),
      options_(options),
      session_(session),
      api_(api),
      journal_(journal),
      progress_(options.on_progress) {
  for (FolderFile& file : files) {
    files_.emplace_back();
    files_.back().file = std::move(file);
  }
}

FolderUpload::~FolderUpload() {
  session_.stop();
  sender_.reset();
  if (hasher_.joinable()) hasher_.join();
}

std::string FolderUpload::path_of(const File& file) const {
  return join_path(folder_, file.file.path);
}

Result<UploadReport> FolderUpload::run() {
  SHARDKIT_TRY(ask_how());
  make_groups();
  const bool has_lfs = std::any_of(files_.begin(), files_.end(),
                                   [](const File& file) { return file.stage == Stage::kToHash; });
  if (has_lfs) {
    SHARDKIT_ASSIGN(
        sender_, LfsSender::make(session_, fs_, folder_, options_.repo, options_.branch, journal_,
                                 progress_, options_.connections, [this](const std::string& oid) {
                                   const std::lock_guard lock(mutex_);
                                   const auto [begin, end] = sending_.equal_range(oid);
                                   for (auto it = begin; it != end; ++it)
                                     it->second->stage = Stage::kReady;
                                   sending_.erase(begin, end);
                                   changed_.notify_all();
                                 }));
    try {
      hasher_ = std::thread([this] { hash_all(); });
    } catch (const std::system_error&) {
      return Error(ErrorCode::kLimit, "the system starts no thread to work in the background");
    }
  } else {
    all_hashed_ = true;
  }
  progress_.tell();
  auto done = work();
  if (!done.ok()) {
    // What stopped the others is why this one was stopped.
    auto first = result();
    if (done.error().code() == ErrorCode::kCancelled && !first.ok())
      return std::move(first).error();
    return std::move(done).error();
  }
  if (sender_) report_.bytes_sent += sender_->sent_bytes();
  for (const File& file : files_) {
    report_.files_there += file.stage == Stage::kThere ? 1 : 0;
    if (file.stage == Stage::kIgnored) report_.ignored.push_back(file.file.path);
  }
  progress_.tell();
  return std::move(report_);
}

/// Asks the Hub how to send each file, and leaves out those that the branch has and that are small.
Status FolderUpload::ask_how() {
  for (const File& file : files_) {
    if (file.file.path != ".gitignore") continue;
    SHARDKIT_ASSIGN(gitignore_, read_whole_file(fs_, path_of(file), kLargestGitignore));
  }
  std::vector<File*> all;
  for (File& file : files_) all.push_back(&file);
  std::span<File* const> rest(all);
  while (!rest.empty()) {
    const auto some = rest.first(std::min(rest.size(), RepoApi::kMostPreuploadFiles));
    rest = rest.subspan(some.size());
    SHARDKIT_ASSIGN(const auto answers, preupload(some));
    for (std::size_t i = 0; i < some.size(); ++i) {
      File& file = *some[i];
      file.is_lfs = answers[i].is_lfs;
      file.remote_oid = answers[i].oid;
      if (answers[i].is_ignored) {
        file.stage = Stage::kIgnored;
      } else if (file.is_lfs) {
        file.stage = Stage::kToHash;
      } else {
        SHARDKIT_ASSIGN(file.oid, digest(file, Digest::Kind::kSha1));
        if (file.oid == file.remote_oid) file.stage = Stage::kThere;
      }
    }
  }
  progress_.update([this](UploadProgress& all_files) {
    for (const File& file : files_) {
      if (file.stage == Stage::kIgnored) continue;
      ++all_files.files_total;
      if (file.stage == Stage::kThere) {
        ++all_files.files_done;
      } else {
        all_files.bytes_total += file.file.info.bytes;
      }
    }
  });
  return {};
}

Result<std::vector<PreuploadAnswer>> FolderUpload::preupload(std::span<File* const> files) {
  std::vector<PreuploadFile> list;
  for (const File* file : files) {
    SHARDKIT_ASSIGN(const std::string sample, first_bytes(fs_, path_of(*file), kSampleBytes));
    list.push_back(
        {file->file.path, file->file.info.bytes, base64(std::as_bytes(std::span(sample)))});
  }
  return api_.preupload(list, gitignore_);
}

void FolderUpload::make_groups() {
  std::size_t begin = 0, count = 0;
  std::uint64_t content = 0;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const File& file = files_[i];
    if (file.stage == Stage::kIgnored || file.stage == Stage::kThere) continue;
    const std::uint64_t bytes = file.is_lfs ? 0 : file.file.info.bytes;
    if (count == kMostCommitFiles || (count > 0 && content + bytes > kMostCommitContent)) {
      groups_.push_back(std::span(files_).subspan(begin, i - begin));
      begin = i;
      count = 0;
      content = 0;
    }
    ++count;
    content += bytes;
  }
  groups_.push_back(std::span(files_).subspan(begin));
}

Result<std::string> FolderUpload::digest(const File& file, Digest::Kind kind) {
  SHARDKIT_ASSIGN(Digest digest, Digest::make(kind));
  SHARDKIT_ASSIGN(const auto open, fs_.open(path_of(file)));
  if (kind == Digest::Kind::kSha1) {  // git's, of a blob
    const std::string head = fmt::format("blob {}", open->size());
    digest.add(std::as_bytes(std::span(head.c_str(), head.size() + 1)));
  }
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::min<std::uint64_t>(kReadBytes, open->size())));
  for (std::uint64_t at = 0; at < open->size();) {
    if (session_.is_stopped()) return Error(ErrorCode::kCancelled, "the upload was stopped");
    const auto part = std::span(buffer).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), open->size() - at)));
    SHARDKIT_TRY(open->read_at(at, part));
    digest.add(part);
    at += part.size();
  }
  return digest.finish();
}

void FolderUpload::hash_all() {
  for (File& file : files_) {
    if (file.stage != Stage::kToHash) continue;  // no other thread changes these
    if (auto status = hash(file); !status.ok()) {
      const std::lock_guard lock(mutex_);
      hash_error_ = std::move(status).error();
      break;
    }
  }
  const std::lock_guard lock(mutex_);
  all_hashed_ = true;
  changed_.notify_all();
}

Status FolderUpload::hash(File& file) {
  std::string oid = journal_.sha256_of(file.file).value_or("");
  if (oid.empty()) {
    SHARDKIT_ASSIGN(oid, digest(file, Digest::Kind::kSha256));
    // Else the journal would know the file by a digest that it never had.
    SHARDKIT_TRY(check_unchanged(fs_, folder_, file.file));
    journal_.add_sha256(file.file, oid);
  }
  const bool is_there = oid == file.remote_oid;
  {
    const std::lock_guard lock(mutex_);
    file.oid = std::move(oid);
    file.stage = is_there ? Stage::kThere : Stage::kHashed;
    changed_.notify_all();
  }
  if (is_there)
    progress_.update([&](UploadProgress& all) {
      all.bytes_total -= file.file.info.bytes;
      ++all.files_done;
    });
  return {};
}

Status FolderUpload::result() const {
  if (sender_) SHARDKIT_TRY(sender_->result());
  const std::lock_guard lock(mutex_);
  if (hash_error_) return *hash_error_;
  return {};
}

bool FolderUpload::is_whole(std::span<File> group) {
  const std::lock_guard lock(mutex_);
  return std::all_of(group.begin(), group.end(), [](const File& file) {
    return file.stage == Stage::kReady || file.stage == Stage::kThere ||
           file.stage == Stage::kIgnored;
  });
}

/// Files whose digests are known, as many as the Hub takes at once.
std::vector<FolderUpload::File*> FolderUpload::next_batch() {
  const std::lock_guard lock(mutex_);
  std::vector<File*> batch;
  for (File& file : files_)
    if (file.stage == Stage::kHashed && batch.size() < RepoApi::kMostPreuploadFiles)
      batch.push_back(&file);
  return batch;
}

Status FolderUpload::work() {
  for (const std::span<File> group : groups_) {
    while (!is_whole(group)) {
      SHARDKIT_TRY(result());
      if (session_.is_stopped()) return Error(ErrorCode::kCancelled, "the upload was stopped");
      // Small files are asked for many at a time: those that were hashed while others are sent.
      const bool is_hungry =
          sender_->waiting_parts() < static_cast<std::size_t>(options_.connections);
      const std::vector<File*> batch = is_hungry ? next_batch() : std::vector<File*>();
      if (!batch.empty()) {
        SHARDKIT_TRY(send(batch));
        continue;
      }
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::milliseconds(20));
    }
    SHARDKIT_TRY(commit(group));
  }
  return {};
}

Status FolderUpload::send(const std::vector<File*>& batch) {
  std::vector<LfsObject> objects;
  std::vector<File*> first;  // of each object
  std::uint64_t repeated = 0;
  {
    const std::lock_guard lock(mutex_);
    for (File* file : batch) {
      const bool is_new = !sending_.contains(file->oid);
      file->stage = Stage::kSending;
      sending_.emplace(file->oid, file);
      if (!is_new) {
        repeated += file->file.info.bytes;
        continue;
      }
      objects.push_back({file->oid, file->file.info.bytes});
      first.push_back(file);
    }
  }
  progress_.update([&](UploadProgress& all) { all.bytes_total -= repeated; });
  if (objects.empty()) return {};
  SHARDKIT_ASSIGN(auto actions, api_.lfs_batch(objects));
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (!actions[i].is_there) {
      sender_->add(first[i]->file, objects[i].oid, std::move(actions[i]));
      continue;
    }
    const std::lock_guard lock(mutex_);
    const auto [begin, end] = sending_.equal_range(objects[i].oid);
    for (auto it = begin; it != end; ++it) it->second->stage = Stage::kReady;
    sending_.erase(begin, end);
    progress_.update([&](UploadProgress& all) { all.bytes_total -= objects[i].bytes; });
  }
  return {};
}

Status FolderUpload::commit(std::span<File> group) {
  std::vector<File*> changed;
  std::uint64_t content = 0;
  for (File& file : group) {
    if (file.stage != Stage::kReady) continue;
    changed.push_back(&file);
    if (!file.is_lfs) content += file.file.info.bytes;
  }
  if (changed.empty()) return {};
  std::string message =
      options_.commit_message.empty() ? std::string(kDefaultMessage) : options_.commit_message;
  if (!report_.commits.empty()) {
    const std::size_t line_end = std::min(message.find('\n'), message.size());
    message.insert(line_end, fmt::format(" (part {})", report_.commits.size() + 1));
  }
  SHARDKIT_ASSIGN(Commit made, commit_until_known(changed, message));
  report_.commits.push_back(std::move(made));
  report_.files_sent += changed.size();
  report_.bytes_sent += content;
  progress_.update([&](UploadProgress& all) {
    all.bytes_done += content;
    all.files_done += changed.size();
  });
  return {};
}

/// Where no answer comes, the commit may have been made all the same: before it is sent again, the
/// Hub is asked which of its files the branch has.
Result<Commit> FolderUpload::commit_until_known(std::vector<File*> changed,
                                                const std::string& message) {
  double wait = options_.retry.first_wait;
  for (int tries = 1;; ++tries) {
    std::vector<CommitFile> files;
    for (const File* file : changed) {
      SHARDKIT_TRY(check_unchanged(fs_, folder_, file->file));
      files.push_back({file->file.path, file->file.info.bytes, file->is_lfs ? file->oid : ""});
    }
    CommitBody body(fs_, folder_, message, files);
    SHARDKIT_ASSIGN(auto made, api_.commit(body));
    for (const File* file : changed) SHARDKIT_TRY(check_unchanged(fs_, folder_, file->file));
    if (made) return *std::move(made);
    if (tries >= options_.retry.tries)
      return Error(ErrorCode::kIo, "the Hub does not answer to the commit")
          .found(fmt::format("{} tries", tries));
    SHARDKIT_TRY(session_.wait(wait, "the Hub does not answer to the commit"));
    wait = std::min(wait * 2, options_.retry.longest_wait);
    std::vector<File*> missing;
    for (std::span<File* const> rest(changed); !rest.empty();) {
      const auto some = rest.first(std::min(rest.size(), RepoApi::kMostPreuploadFiles));
      rest = rest.subspan(some.size());
      SHARDKIT_ASSIGN(const auto answers, preupload(some));
      for (std::size_t i = 0; i < some.size(); ++i)
        if (answers[i].oid != some[i]->oid) missing.push_back(some[i]);
    }
    if (missing.empty()) {
      SHARDKIT_ASSIGN(std::string oid, api_.branch_oid());
      const std::string url = fmt::format("{}/commit/{}", api_.page(), oid);
      return Commit{std::move(oid), url};
    }
    changed = std::move(missing);
  }
}

}  // namespace shardkit::hub
