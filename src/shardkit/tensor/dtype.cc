#include "shardkit/tensor/dtype.h"

#include <array>

namespace shardkit {
namespace {

enum class Kind : std::uint8_t { kWideFloat, kSmallFloat, kComplex, kInteger, kBool };

struct Info {
  DType dtype;
  std::int64_t item_bytes;
  Kind kind;
  std::string_view torch_name;
  std::string_view safetensors_name;
};

constexpr std::array<Info, kDTypeCount> kInfo{{
    {DType::kFloat64, 8, Kind::kWideFloat, "float64", "F64"},
    {DType::kFloat32, 4, Kind::kWideFloat, "float32", "F32"},
    {DType::kFloat16, 2, Kind::kWideFloat, "float16", "F16"},
    {DType::kBFloat16, 2, Kind::kWideFloat, "bfloat16", "BF16"},
    {DType::kFloat8E4M3FN, 1, Kind::kSmallFloat, "float8_e4m3fn", "F8_E4M3"},
    {DType::kFloat8E4M3FNUZ, 1, Kind::kSmallFloat, "float8_e4m3fnuz", "F8_E4M3FNUZ"},
    {DType::kFloat8E5M2, 1, Kind::kSmallFloat, "float8_e5m2", "F8_E5M2"},
    {DType::kFloat8E5M2FNUZ, 1, Kind::kSmallFloat, "float8_e5m2fnuz", "F8_E5M2FNUZ"},
    {DType::kFloat8E8M0FNU, 1, Kind::kSmallFloat, "float8_e8m0fnu", "F8_E8M0"},
    {DType::kFloat4E2M1FNx2, 1, Kind::kSmallFloat, "float4_e2m1fn_x2", "F4"},
    {DType::kComplex128, 16, Kind::kComplex, "complex128", ""},
    {DType::kComplex64, 8, Kind::kComplex, "complex64", "C64"},
    {DType::kComplex32, 4, Kind::kComplex, "complex32", ""},
    {DType::kInt64, 8, Kind::kInteger, "int64", "I64"},
    {DType::kInt32, 4, Kind::kInteger, "int32", "I32"},
    {DType::kInt16, 2, Kind::kInteger, "int16", "I16"},
    {DType::kInt8, 1, Kind::kInteger, "int8", "I8"},
    {DType::kUInt64, 8, Kind::kInteger, "uint64", "U64"},
    {DType::kUInt32, 4, Kind::kInteger, "uint32", "U32"},
    {DType::kUInt16, 2, Kind::kInteger, "uint16", "U16"},
    {DType::kUInt8, 1, Kind::kInteger, "uint8", "U8"},
    {DType::kBool, 1, Kind::kBool, "bool", "BOOL"},
}};

constexpr bool table_is_in_enum_order() {
  for (std::size_t i = 0; i < kInfo.size(); ++i)
    if (static_cast<std::size_t>(kInfo[i].dtype) != i) return false;
  return true;
}
static_assert(table_is_in_enum_order());

constexpr const Info& info(DType dtype) { return kInfo[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::int64_t item_bytes(DType dtype) { return info(dtype).item_bytes; }

std::string_view torch_name(DType dtype) { return info(dtype).torch_name; }

std::optional<DType> dtype_from_torch_name(std::string_view name) {
  for (const Info& entry : kInfo)
    if (entry.torch_name == name) return entry.dtype;
  return std::nullopt;
}

std::string_view safetensors_name(DType dtype) { return info(dtype).safetensors_name; }

std::optional<DType> dtype_from_safetensors_name(std::string_view name) {
  for (const Info& entry : kInfo)
    if (!name.empty() && entry.safetensors_name == name) return entry.dtype;
  return std::nullopt;
}

bool is_castable_float(DType dtype) { return info(dtype).kind == Kind::kWideFloat; }

bool is_floating_point(DType dtype) {
  return info(dtype).kind == Kind::kWideFloat || info(dtype).kind == Kind::kSmallFloat;
}

bool is_integer(DType dtype) { return info(dtype).kind == Kind::kInteger; }

}  // namespace shardkit
