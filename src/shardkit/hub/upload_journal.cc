// A line a fact: {"sha256", "path", "bytes", "modified_ns", "inode"}, {"actions", ...} or
// {"part", "of", "etag"}. The first names the upload.
#include "shardkit/hub/upload_journal.h"

#include <utility>

#include "shardkit/io/file_tree.h"
#include "shardkit/io/path.h"
#include "shardkit/json/parse.h"
#include "shardkit/json/value.h"
#include "shardkit/json/write.h"

namespace shardkit::hub {
namespace {

constexpr std::uint64_t kLargestJournal = 64u << 20;
constexpr std::size_t kMostJournalParts = 10'000;

std::string line_of(json::Object object) {
  return json::write(json::Value(std::move(object)), json::WriteStyle::kCompact) + "\n";
}

std::string text_member(const json::Value& value, std::string_view name) {
  const json::Value* member = value.find(name);
  const std::string* text = member ? member->get_if<std::string>() : nullptr;
  return text ? *text : std::string();
}

std::uint64_t number_member(const json::Value& value, std::string_view name) {
  const json::Value* member = value.find(name);
  return member ? member->as_uint64().value_or(0) : 0;
}

}  // namespace

Result<std::unique_ptr<UploadJournal>> UploadJournal::open(FileSystem& fs, std::string path,
                                                           std::string_view identity) {
  const std::string folder = parent_path(path);
  const bool is_private = make_directories(fs, parent_path(folder), Durability::kUnsynced).ok() &&
                          make_private_directory(folder).ok();
  if (!is_private) return std::unique_ptr<UploadJournal>(new UploadJournal(fs, "", nullptr));
  std::unique_ptr<FileLock> lock;
  auto locked = fs.lock(path + ".lock", "an upload");
  if (locked.ok()) {
    lock = *std::move(locked);
  } else if (locked.error().found_text()) {
    return Error(ErrorCode::kIo, "this folder is being uploaded there already")
        .in_file(path + ".lock");
  }
  std::unique_ptr<UploadJournal> journal(new UploadJournal(fs, std::move(path), std::move(lock)));
  const auto text = read_whole_file(fs, journal->path_, kLargestJournal);
  journal->start(identity, text.ok() ? std::string_view(*text) : std::string_view());
  return journal;
}

void UploadJournal::start(std::string_view identity, std::string_view text) {
  json::Object first;
  first.add("upload", identity);
  std::string kept = line_of(std::move(first));
  if (text.starts_with(kept)) {
    text.remove_prefix(kept.size());
    // The last line may have been cut by what killed the upload.
    for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
      if (!take_line(text.substr(0, end))) break;
      kept += text.substr(0, end + 1);
      text.remove_prefix(end + 1);
    }
  }
  static_cast<void>(fs_.remove_all(path_));
  if (auto file = fs_.create(path_); file.ok()) file_ = *std::move(file);
  write_line(std::move(kept));
}

bool UploadJournal::take_line(std::string_view line) {
  const auto value = json::parse(line);
  if (!value.ok()) return false;
  if (const std::string oid = text_member(*value, "sha256"); !oid.empty()) {
    const json::Value* modified = value->find("modified_ns");
    digests_[FileKey(text_member(*value, "path"), number_member(*value, "bytes"),
                     modified ? modified->as_int64().value_or(0) : 0,
                     number_member(*value, "inode"))] = oid;
    return true;
  }
  if (const std::string oid = text_member(*value, "actions"); !oid.empty()) {
    Parts parts;
    parts.actions.part_bytes = number_member(*value, "part_bytes");
    parts.actions.completion = text_member(*value, "completion");
    parts.actions.verification = text_member(*value, "verification");
    const json::Value* addresses = value->find("parts");
    const auto* array = addresses ? addresses->get_if<json::Array>() : nullptr;
    if (!array || array->items.size() > kMostJournalParts) return false;
    for (const json::Value& item : array->items) {
      const std::string* address = item.get_if<std::string>();
      if (!address) return false;
      parts.actions.parts.push_back(*address);
    }
    parts.etags.resize(parts.actions.parts.size());
    parts_[oid] = std::move(parts);
    return true;
  }
  const auto of = parts_.find(text_member(*value, "of"));
  const std::uint64_t part = number_member(*value, "part");
  if (of == parts_.end() || part >= of->second.etags.size()) return false;
  of->second.etags[static_cast<std::size_t>(part)] = text_member(*value, "etag");
  return true;
}

void UploadJournal::write_line(std::string line) {
  if (!file_) return;
  if (file_->write_at(end_, std::as_bytes(std::span(line))).ok()) {
    end_ += line.size();
  } else {
    file_.reset();
  }
}

bool UploadJournal::is_kept() const {
  const std::lock_guard lock(mutex_);
  return file_ != nullptr;
}

std::optional<std::string> UploadJournal::sha256_of(const FolderFile& file) const {
  const std::lock_guard lock(mutex_);
  const auto found =
      digests_.find(FileKey(file.path, file.info.bytes, file.info.modified_ns, file.info.inode));
  if (found == digests_.end()) return std::nullopt;
  return found->second;
}

void UploadJournal::add_sha256(const FolderFile& file, const std::string& oid) {
  json::Object object;
  object.add("sha256", oid);
  object.add("path", file.path);
  object.add("bytes", file.info.bytes);
  object.add("modified_ns", file.info.modified_ns);
  object.add("inode", file.info.inode);
  const std::lock_guard lock(mutex_);
  write_line(line_of(std::move(object)));
}

std::optional<UploadJournal::Parts> UploadJournal::parts_of(const std::string& oid) const {
  const std::lock_guard lock(mutex_);
  const auto found = parts_.find(oid);
  if (found == parts_.end()) return std::nullopt;
  return found->second;
}

void UploadJournal::add_actions(const std::string& oid, const LfsActions& actions) {
  json::Object object;
  object.add("actions", oid);
  object.add("part_bytes", actions.part_bytes);
  object.add("completion", actions.completion);
  object.add("verification", actions.verification);
  json::Array parts;
  for (const std::string& address : actions.parts) parts.items.emplace_back(address);
  object.add("parts", std::move(parts));
  const std::lock_guard lock(mutex_);
  write_line(line_of(std::move(object)));
}

void UploadJournal::add_part(const std::string& oid, std::size_t part, const std::string& etag) {
  json::Object object;
  object.add("part", part);
  object.add("of", oid);
  object.add("etag", etag);
  const std::lock_guard lock(mutex_);
  write_line(line_of(std::move(object)));
}

Status UploadJournal::remove() {
  const std::lock_guard lock(mutex_);
  file_.reset();
  return path_.empty() ? Status() : fs_.remove_all(path_);
}

}  // namespace shardkit::hub
