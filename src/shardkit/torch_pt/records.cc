#include "shardkit/torch_pt/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "shardkit/base/checked_math.h"
#include "shardkit/pickle/parse.h"
#include "shardkit/torch_pt/sniff.h"

namespace shardkit {
namespace {

constexpr std::uint64_t kSmallRecordBytes = 1 << 20;
constexpr std::uint64_t kSmallStorageBytes = 16 << 20;
// torch 2.13, caffe2/serialize/versions.h: kMinSupportedFileFormatVersion and kMax...
constexpr int kMinVersion = 1;
constexpr int kMaxVersion = 10;

constexpr std::string_view kTorchScript =
    "the file is a TorchScript program, no checkpoint: save the module's state_dict";

/// TorchScript compresses its code, so that the zip room refuses the archive before it is known
/// what it is.
Error explain(Error error) {
  if (error.code() != ErrorCode::kUnsupported ||
      error.message().find("/code/") == std::string::npos)
    return error;
  return Error(ErrorCode::kUnsupported, std::string(kTorchScript)).in_file(*error.file());
}

}  // namespace

PtRecords::PtRecords(const RandomAccessFile& file, zip::Archive archive)
    : file_(&file),
      archive_(std::move(archive)),
      path_(std::make_shared<const std::string>(file.path())),
      storages_(std::make_shared<std::vector<Storage>>()),
      storage_of_entry_(archive_.entries().size(), 0) {
  storages_->reserve(archive_.entries().size());  // so that none of them ever moves
}

Error PtRecords::error(ErrorCode code, std::string what) const {
  return Error(code, std::move(what)).in_file(*path_);
}

Result<PtRecords> PtRecords::open(const RandomAccessFile& file, bool verify_crc) {
  std::string head(static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), kSniffBytes)),
                   '\0');
  SHARDKIT_TRY(file.read_at(0, std::as_writable_bytes(std::span(head))));
  if (auto looks = check_looks_like_pt(head, file.size()); !looks.ok())
    return Error(looks.error()).in_file(file.path());
  auto archive = zip::Archive::open(file);
  if (!archive.ok()) return explain(std::move(archive).error());
  PtRecords records(file, *std::move(archive));
  SHARDKIT_TRY(records.check_names());
  SHARDKIT_TRY(records.check_small_records());
  if (verify_crc)
    for (const zip::Entry& entry : records.archive_.entries())
      SHARDKIT_TRY(zip::verify_entry(file, entry));
  return records;
}

Status PtRecords::check_names() {
  const auto& entries = archive_.entries();
  const std::size_t slash = entries.empty() ? 0 : entries[0].name.find('/');
  if (entries.empty() || slash == std::string_view::npos || slash == 0)
    return error(ErrorCode::kUnsupported,
                 "the file is a zip archive, but not one that torch.save wrote");
  prefix_ = entries[0].name.substr(0, slash + 1);
  for (const zip::Entry& entry : entries) {
    if (!entry.name.starts_with(prefix_))
      return error(ErrorCode::kUnsupported, "the archive's records lie under two names")
          .expected(fmt::format("'{}...'", prefix_))
          .found(fmt::format("'{}'", entry.name));
    const std::string_view record = entry.name.substr(prefix_.size());
    if (record == "constants.pkl" || record.starts_with("code/"))
      return error(ErrorCode::kUnsupported, std::string(kTorchScript));
  }
  pickle_ = archive_.find(prefix_ + "data.pkl");
  if (!pickle_ && archive_.find(prefix_ + ".data/serialization_id"))
    return error(ErrorCode::kCorrupt, "the archive has no data.pkl: torch.save did not finish");
  if (!pickle_)
    return error(ErrorCode::kUnsupported,
                 "the file is a zip archive without data.pkl: not one that torch.save wrote");
  return {};
}

/// torch.load (2.13) reads byteorder and version; the other small records are not needed, but a
/// wrong CRC in one of them is damage all the same.
Status PtRecords::check_small_records() const {
  const std::string data = prefix_ + "data/";
  for (const zip::Entry& entry : archive_.entries())
    if (&entry != pickle_ && !entry.name.starts_with(data))
      SHARDKIT_TRY(zip::verify_entry(*file_, entry));
  if (const zip::Entry* entry = archive_.find(prefix_ + "byteorder")) {
    SHARDKIT_ASSIGN(const std::string order, zip::read_entry(*file_, *entry, kSmallRecordBytes));
    if (order == "big")
      return error(ErrorCode::kUnsupported, "the tensors are big-endian (record 'byteorder')");
    if (order != "little")
      return error(ErrorCode::kCorrupt, "an unknown byte order (record 'byteorder')").found(order);
  }
  if (const zip::Entry* entry = archive_.find(prefix_ + "version")) {
    SHARDKIT_ASSIGN(std::string text, zip::read_entry(*file_, *entry, kSmallRecordBytes));
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    int version = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), version);
    if (fault != std::errc() || end != text.data() + text.size())
      return error(ErrorCode::kCorrupt, "a version that is no number (record 'version')")
          .found(text);
    if (version < kMinVersion || version > kMaxVersion)
      return error(ErrorCode::kUnsupported, "an unknown version of the archive (record 'version')")
          .expected(fmt::format("{} to {}", kMinVersion, kMaxVersion))
          .found(text);
  }
  return {};
}

Result<std::string> PtRecords::read_pickle() const {
  return zip::read_entry(*file_, *pickle_, pickle::kMaxPickleBytes);
}

Result<std::shared_ptr<const Storage>> PtRecords::storage(std::string_view key, std::int64_t count,
                                                          std::int64_t item_bytes) {
  name_.assign(prefix_).append("data/").append(key);
  const zip::Entry* entry = archive_.find(name_);
  if (!entry)
    return error(ErrorCode::kCorrupt, "the pickle refers to a storage that is not in the archive")
        .found(fmt::format("'{}'", name_));
  const auto stated = count < 0 ? std::nullopt : checked_mul(count, item_bytes);
  const auto stated_bytes = static_cast<std::uint64_t>(stated.value_or(0));
  if (!stated || stated_bytes > entry->bytes ||
      entry->bytes - stated_bytes >= static_cast<std::uint64_t>(item_bytes))
    return error(ErrorCode::kCorrupt, "a storage's record has not the size that the pickle states")
        .expected(fmt::format("{} items of {} bytes", count, item_bytes))
        .found(fmt::format("{} bytes in '{}'", entry->bytes, entry->name))
        .at_offset(entry->offset);
  std::uint32_t& place =
      storage_of_entry_[static_cast<std::size_t>(entry - archive_.entries().data())];
  if (place == 0) {
    storages_->emplace_back(FileRange{path_, entry->offset}, entry->bytes);
    entry_of_storage_.push_back(entry);
    place = static_cast<std::uint32_t>(storages_->size());
  }
  return std::shared_ptr<const Storage>(storages_, &(*storages_)[place - 1]);
}

Result<std::string> PtRecords::read_storage(const Storage& storage) const {
  const auto place = static_cast<std::size_t>(&storage - storages_->data());
  return zip::read_entry(*file_, *entry_of_storage_[place], kSmallStorageBytes);
}

}  // namespace shardkit
