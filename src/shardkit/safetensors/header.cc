// Parses and checks the header of a safetensors file.
#include "shardkit/safetensors/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_set>

#include "shardkit/base/checked_math.h"
#include "shardkit/json/events.h"

namespace shardkit::safetensors {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::string_view kMetadataKey = "__metadata__";

Error corrupt(std::string_view what) { return Error(ErrorCode::kCorrupt, std::string(what)); }

/// Where in the document the next part belongs.
enum class Place {
  kStart,
  kTop,       ///< between the members of the outermost object
  kMetadata,  ///< the value of __metadata__, or its members
  kEntry,     ///< the value of a tensor name
  kField,     ///< between the members of a tensor
  kDtype,
  kShape,
  kOffsets,
  kIgnored,  ///< the value of a field that safetensors does not define
  kEnd,
};

/// Makes records from the parts of the JSON text, so that no tree of it is kept.
class HeaderBuilder : public json::Events {
 public:
  explicit HeaderBuilder(Header& header) : header_(header) {}

  Status null() override {
    if (place_ == Place::kMetadata && !in_metadata_) return place_ = Place::kTop, Status();
    return scalar("null");
  }
  Status boolean(bool) override { return scalar("a boolean"); }
  Status number(double) override { return scalar("a number that is no integer"); }
  Status integer(std::int64_t value) override {
    if (value < 0) return scalar("a negative number");
    return unsigned_integer(static_cast<std::uint64_t>(value));
  }
  Status unsigned_integer(std::uint64_t value) override;
  Status string(std::string value) override;
  Status begin_object() override;
  Status key(std::string name) override;
  Status end_object() override;
  Status begin_array() override;
  Status end_array() override;

 private:
  /// A value of a kind that its place does not take.
  Status scalar(std::string_view kind) {
    if (place_ == Place::kIgnored) return value_ignored();
    return unexpected(kind);
  }
  Error unexpected(std::string_view found) const;
  Status value_ignored() {
    if (ignored_depth_ == 0) place_ = Place::kField;
    return {};
  }
  Status field_done(bool& seen) {
    place_ = Place::kField;
    seen = true;
    return {};
  }
  Status entry_done();

  Header& header_;
  Place place_ = Place::kStart;
  bool in_metadata_ = false;
  bool in_array_ = false;
  std::size_t ignored_depth_ = 0;
  std::string metadata_key_;
  std::unordered_set<std::string> metadata_keys_;
  std::unordered_set<std::string> names_;
  bool seen_metadata_ = false;

  // The tensor that is being read.
  TensorRecord record_;
  std::unordered_set<std::string> fields_;
  std::vector<std::int64_t> sizes_;
  std::vector<std::uint64_t> offsets_;
  bool seen_dtype_ = false;
  bool seen_shape_ = false;
  bool seen_offsets_ = false;
};

/// Of the places that take only some kinds of values: the document begins with '{', and a member of
/// an entry that safetensors does not define may be anything.
Error HeaderBuilder::unexpected(std::string_view found) const {
  switch (place_) {
    case Place::kMetadata: return corrupt("__metadata__ is no object of strings").found(found);
    case Place::kEntry:
      return corrupt("a tensor's entry is no object").of_tensor(record_.name).found(found);
    case Place::kDtype: return corrupt("dtype is no string").of_tensor(record_.name).found(found);
    case Place::kShape:
      return corrupt("shape is no array of sizes").of_tensor(record_.name).found(found);
    default:  // kOffsets
      return corrupt("data_offsets is no array of two positions")
          .of_tensor(record_.name)
          .found(found);
  }
}

Status HeaderBuilder::unsigned_integer(std::uint64_t value) {
  if (place_ == Place::kShape && in_array_) {
    if (value > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
      return corrupt("a size in shape overflows")
          .of_tensor(record_.name)
          .found(std::to_string(value));
    if (sizes_.size() == Dims::kMaxDims)
      return Error(ErrorCode::kLimit,
                   fmt::format("a shape of more than {} dimensions", Dims::kMaxDims))
          .of_tensor(record_.name);
    sizes_.push_back(static_cast<std::int64_t>(value));
    return {};
  }
  if (place_ == Place::kOffsets && in_array_) {
    if (offsets_.size() == 2) return unexpected("a third number");
    offsets_.push_back(value);
    return {};
  }
  return scalar("a number");
}

Status HeaderBuilder::string(std::string value) {
  if (place_ == Place::kMetadata && in_metadata_) {
    if (value.find('\0') != value.npos)
      return corrupt(fmt::format("the value of '{}' in __metadata__ holds a NUL", metadata_key_));
    header_.metadata.emplace_back(std::move(metadata_key_), std::move(value));
    return {};
  }
  if (place_ != Place::kDtype) return scalar("a string");
  const auto dtype = dtype_from_safetensors_name(value);
  if (!dtype)
    return Error(ErrorCode::kUnsupported,
                 fmt::format("the element type {} is unknown, or one that PyTorch lacks", value))
        .of_tensor(record_.name);
  record_.dtype = *dtype;
  return field_done(seen_dtype_);
}

Status HeaderBuilder::begin_object() {
  switch (place_) {
    case Place::kStart: place_ = Place::kTop; return {};
    case Place::kMetadata:
      if (in_metadata_) return unexpected("an object");
      in_metadata_ = true;
      return {};
    case Place::kEntry:
      place_ = Place::kField;
      fields_.clear();
      sizes_.clear();
      offsets_.clear();
      seen_dtype_ = seen_shape_ = seen_offsets_ = false;
      return {};
    case Place::kIgnored: ++ignored_depth_; return {};
    default: return unexpected("an object");
  }
}

Status HeaderBuilder::key(std::string name) {
  if (place_ == Place::kIgnored) return {};
  if (place_ == Place::kMetadata) {
    if (name.find('\0') != name.npos) return corrupt("a name in __metadata__ holds a NUL");
    if (!metadata_keys_.insert(name).second)
      return corrupt(fmt::format("'{}' comes twice in __metadata__", name));
    metadata_key_ = std::move(name);
    return {};
  }
  if (place_ == Place::kField) {
    if (!fields_.insert(name).second)
      return corrupt(fmt::format("'{}' comes twice", name)).of_tensor(record_.name);
    place_ = name == "dtype"          ? Place::kDtype
             : name == "shape"        ? Place::kShape
             : name == "data_offsets" ? Place::kOffsets
                                      : Place::kIgnored;
    return {};
  }
  if (name == kMetadataKey) {
    if (seen_metadata_) return corrupt("__metadata__ comes twice");
    seen_metadata_ = true;
    place_ = Place::kMetadata;
    return {};
  }
  if (name.find('\0') != name.npos) return corrupt("a tensor's name holds a NUL");
  if (!names_.insert(name).second) return corrupt("the tensor comes twice").of_tensor(name);
  record_.name = std::move(name);
  place_ = Place::kEntry;
  return {};
}

Status HeaderBuilder::end_object() {
  switch (place_) {
    case Place::kTop: place_ = Place::kEnd; return {};
    case Place::kMetadata:
      in_metadata_ = false;
      place_ = Place::kTop;
      return {};
    case Place::kField: return entry_done();
    default: --ignored_depth_; return value_ignored();
  }
}

Status HeaderBuilder::begin_array() {
  if (place_ == Place::kIgnored) return ++ignored_depth_, Status();
  if ((place_ != Place::kShape && place_ != Place::kOffsets) || in_array_)
    return unexpected("an array");
  in_array_ = true;
  return {};
}

Status HeaderBuilder::end_array() {
  if (place_ == Place::kIgnored) return --ignored_depth_, value_ignored();
  in_array_ = false;
  if (place_ == Place::kShape) return field_done(seen_shape_);
  if (offsets_.size() != 2) return unexpected(fmt::format("{} numbers", offsets_.size()));
  return field_done(seen_offsets_);
}

Status HeaderBuilder::entry_done() {
  if (!seen_dtype_ || !seen_shape_ || !seen_offsets_)
    return corrupt("dtype, shape or data_offsets is missing").of_tensor(record_.name);
  record_.shape = Dims(sizes_);
  record_.begin = offsets_[0];
  record_.end = offsets_[1];
  if (record_.dtype == DType::kFloat4E2M1FNx2) {
    // The file counts 4-bit elements, PyTorch the bytes that two of them share.
    if (sizes_.empty() || sizes_.back() % 2 != 0)
      return Error(ErrorCode::kUnsupported,
                   "an F4 tensor whose last size is odd: its rows end within a byte")
          .of_tensor(record_.name)
          .found(to_string(record_.shape));
    record_.shape[sizes_.size() - 1] /= 2;
  }
  const auto count = element_count(record_.shape);
  const auto bytes = count ? checked_mul(*count, item_bytes(record_.dtype)) : std::nullopt;
  if (!bytes)
    return corrupt("the shape overflows").of_tensor(record_.name).found(to_string(record_.shape));
  if (record_.end < record_.begin ||
      record_.end - record_.begin != static_cast<std::uint64_t>(*bytes))
    return corrupt("data_offsets do not fit shape and dtype")
        .of_tensor(record_.name)
        .expected(fmt::format("{} bytes", *bytes))
        .found(fmt::format("[{}, {}]", record_.begin, record_.end));
  header_.tensors.push_back(std::move(record_));
  record_ = TensorRecord{};
  place_ = Place::kTop;
  return {};
}

/// Puts the records in data order and checks that they leave nothing of the data out.
Status check_tiling(std::vector<TensorRecord>& tensors, std::uint64_t data_bytes) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t at = 0;
  for (const TensorRecord& tensor : tensors) {
    if (tensor.begin != at)
      return corrupt(tensor.begin > at ? "a hole in the data before the tensor"
                                       : "the tensor overlaps the one before it")
          .of_tensor(tensor.name)
          .expected(fmt::format("data from {} on", at))
          .found(fmt::format("[{}, {}]", tensor.begin, tensor.end));
    at = tensor.end;
  }
  if (at == data_bytes) return {};
  Error error = corrupt(at > data_bytes ? "the file ends before its tensors do (cut off?)"
                                        : "bytes behind the last tensor")
                    .expected(fmt::format("{} bytes of data", at))
                    .found(std::to_string(data_bytes));
  if (at > data_bytes) {
    const auto cut = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const TensorRecord& t) { return t.end > data_bytes; });
    return std::move(error).of_tensor(cut->name);
  }
  return error;
}

/// What often lies in a file's place after a download that went wrong; empty if it is none of it.
std::string_view other_file_kind(std::span<const std::byte> first_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(first_bytes.data()),
                              first_bytes.size());
  if (text == "version ") return "a Git LFS pointer, not the file it stands for (git lfs pull)";
  if (text.starts_with("<!") || text.starts_with("<html")) return "an HTML page, not the file";
  return {};
}

Result<Header> read(const RandomAccessFile& file) {
  if (file.size() < kLengthBytes)
    return corrupt("too short for a safetensors file")
        .expected(fmt::format("at least {} bytes", kLengthBytes))
        .found(std::to_string(file.size()));
  std::byte length_bytes[kLengthBytes];
  SHARDKIT_TRY(file.read_at(0, length_bytes));
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length |= std::to_integer<std::uint64_t>(length_bytes[i]) << (8 * i);
  if (length > file.size() - kLengthBytes) {
    if (const std::string_view other = other_file_kind(length_bytes); !other.empty())
      return corrupt(other).at_offset(0);
    return corrupt("the header claims to be longer than the file (cut off, or no safetensors?)")
        .at_offset(0)
        .expected(fmt::format("at most {} bytes", file.size() - kLengthBytes))
        .found(std::to_string(length));
  }
  if (length > kMaxHeaderBytes)
    return Error(ErrorCode::kLimit, "the header is longer than safetensors allows")
        .at_offset(0)
        .expected(fmt::format("at most {} bytes", kMaxHeaderBytes))
        .found(std::to_string(length));

  std::string text(length, '\0');
  SHARDKIT_TRY(file.read_at(kLengthBytes, std::as_writable_bytes(std::span<char>(text))));
  if (!text.starts_with('{'))
    return corrupt("the header does not begin with '{'").at_offset(kLengthBytes);

  Header header;
  header.data_offset = kLengthBytes + length;
  HeaderBuilder builder(header);
  SHARDKIT_TRY(
      json::read_events(text, builder, {.bytes = kMaxHeaderBytes, .text_offset = kLengthBytes}));
  SHARDKIT_TRY(check_tiling(header.tensors, file.size() - header.data_offset));
  return header;
}

}  // namespace

Result<Header> read_header(const RandomAccessFile& file) {
  auto header = read(file);
  if (!header.ok()) return std::move(header).error().in_file(file.path());
  return header;
}

}  // namespace shardkit::safetensors
