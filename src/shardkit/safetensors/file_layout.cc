// Lays out a safetensors file for writing.
#include "shardkit/safetensors/file_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "shardkit/base/checked_math.h"
#include "shardkit/json/utf8.h"
#include "shardkit/json/write.h"
#include "shardkit/safetensors/header.h"

namespace shardkit::safetensors {
namespace {

constexpr std::uint64_t kAlignment = 8;
constexpr std::string_view kMetadata = R"({"__metadata__":{"format":"pt")";

/// The order of data in a file (safetensors 0.8, tensor.rs: Dtype from its last enumerator to its
/// first).
constexpr std::array kDataOrder{
    DType::kUInt64,         DType::kInt64,         DType::kFloat64,        DType::kComplex64,
    DType::kFloat32,        DType::kUInt32,        DType::kInt32,          DType::kBFloat16,
    DType::kFloat16,        DType::kUInt16,        DType::kInt16,          DType::kFloat8E5M2FNUZ,
    DType::kFloat8E4M3FNUZ, DType::kFloat8E8M0FNU, DType::kFloat8E4M3FN,   DType::kFloat8E5M2,
    DType::kInt8,           DType::kUInt8,         DType::kFloat4E2M1FNx2, DType::kBool};

std::size_t data_rank(DType dtype) {
  return static_cast<std::size_t>(std::find(kDataOrder.begin(), kDataOrder.end(), dtype) -
                                  kDataOrder.begin());
}

/// Checks one tensor and returns its bytes.
Result<std::uint64_t> checked_bytes(const TensorSpec& tensor) {
  const auto invalid = [&](std::string_view what) {
    return Error(ErrorCode::kInvalidArgument, std::string(what)).of_tensor(tensor.name);
  };
  if (tensor.name == "__metadata__") return invalid("safetensors keeps this name for itself");
  if (tensor.name.find('\0') != std::string::npos || !json::is_valid_utf8(tensor.name))
    return invalid("a name with a NUL or that is not UTF-8");
  if (safetensors_name(tensor.dtype).empty())
    return Error(ErrorCode::kUnsupported,
                 fmt::format("safetensors has no type for {}", torch_name(tensor.dtype)))
        .of_tensor(tensor.name);
  if (tensor.dtype == DType::kFloat4E2M1FNx2 && tensor.shape.empty())
    return Error(ErrorCode::kUnsupported, "safetensors cannot hold a float4_e2m1fn_x2 scalar")
        .of_tensor(tensor.name);
  const auto count = element_count(tensor.shape);
  const auto bytes = count ? checked_mul(*count, item_bytes(tensor.dtype)) : std::nullopt;
  if (!bytes)
    return invalid("a size is negative, or the tensor too large").found(to_string(tensor.shape));
  return static_cast<std::uint64_t>(*bytes);
}

Status check_names_differ(std::span<const TensorSpec> tensors) {
  std::unordered_set<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorSpec& tensor : tensors)
    if (!names.insert(tensor.name).second)
      return Error(ErrorCode::kInvalidArgument, "two tensors of one name").of_tensor(tensor.name);
  return {};
}

/// `"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}`, as serde_json writes it.
Result<std::string> entry(const TensorSpec& tensor, std::uint64_t begin, std::uint64_t end) {
  Dims shape = tensor.shape;
  if (tensor.dtype == DType::kFloat4E2M1FNx2) {
    // PyTorch counts bytes, the file 4-bit elements.
    const auto doubled = checked_mul<std::int64_t>(shape[shape.size() - 1], 2);
    if (!doubled)
      return Error(ErrorCode::kInvalidArgument, "the tensor is too large").of_tensor(tensor.name);
    shape[shape.size() - 1] = *doubled;
  }
  std::string sizes;
  for (const std::int64_t size : shape) {
    if (!sizes.empty()) sizes += ',';
    sizes += std::to_string(size);
  }
  return fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                     json::write(tensor.name, json::WriteStyle::kCompact),
                     safetensors_name(tensor.dtype), sizes, begin, end);
}

/// The members of `__metadata__` after the first, with its closing brace.
Result<std::string> metadata_entries(
    std::span<const std::pair<std::string, std::string>> metadata) {
  std::string json;
  std::unordered_set<std::string_view> keys{"format"};
  for (const auto& [key, value] : metadata) {
    if (!json::is_valid_utf8(key) || !json::is_valid_utf8(value) || !keys.insert(key).second)
      return Error(ErrorCode::kInvalidArgument,
                   "an entry of the metadata that comes twice or is not UTF-8")
          .found(key);
    json += fmt::format(",{}:{}", json::write(key, json::WriteStyle::kCompact),
                        json::write(value, json::WriteStyle::kCompact));
  }
  json += '}';
  return json;
}

}  // namespace

Result<FileLayout> lay_out(std::span<const TensorSpec> tensors,
                           std::span<const std::pair<std::string, std::string>> metadata) {
  SHARDKIT_TRY(check_names_differ(tensors));
  FileLayout layout;
  layout.order.resize(tensors.size());
  std::iota(layout.order.begin(), layout.order.end(), std::size_t{0});
  std::sort(layout.order.begin(), layout.order.end(), [&](std::size_t a, std::size_t b) {
    const std::size_t rank_a = data_rank(tensors[a].dtype);
    const std::size_t rank_b = data_rank(tensors[b].dtype);
    return rank_a != rank_b ? rank_a < rank_b : tensors[a].name < tensors[b].name;
  });

  SHARDKIT_ASSIGN(const std::string entries, metadata_entries(metadata));
  std::string json(kMetadata);
  json += entries;
  layout.offsets.resize(tensors.size());
  std::uint64_t at = 0;
  for (const std::size_t i : layout.order) {
    SHARDKIT_ASSIGN(const std::uint64_t bytes, checked_bytes(tensors[i]));
    const auto end = checked_add(at, bytes);
    if (!end)
      return Error(ErrorCode::kInvalidArgument, "the tensors are too large for one file")
          .of_tensor(tensors[i].name);
    SHARDKIT_ASSIGN(const std::string text, entry(tensors[i], at, *end));
    json += ',';
    json += text;
    layout.offsets[i] = at;
    at = *end;
  }

  json += '}';
  json.append((kAlignment - json.size() % kAlignment) % kAlignment, ' ');
  if (json.size() > kMaxHeaderBytes)
    return Error(ErrorCode::kLimit, "the safetensors header is too long; use more files")
        .expected(fmt::format("at most {} bytes", kMaxHeaderBytes))
        .found(std::to_string(json.size()));

  for (std::size_t i = 0; i < 8; ++i)
    layout.head += static_cast<char>((json.size() >> (8 * i)) & 0xFF);
  layout.head += json;
  for (std::uint64_t& offset : layout.offsets) offset += layout.head.size();
  layout.file_bytes = layout.head.size() + at;
  return layout;
}

}  // namespace shardkit::safetensors
