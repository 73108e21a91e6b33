// DType: the element types of PyTorch tensors, with the names PyTorch and safetensors give them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace shardkit {

/// Element types (torch 2.13, c10/core/ScalarType.h), quantized and sub-byte ones left out.
enum class DType : std::uint8_t {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kFloat8E4M3FN,
  kFloat8E4M3FNUZ,
  kFloat8E5M2,
  kFloat8E5M2FNUZ,
  kFloat8E8M0FNU,
  kFloat4E2M1FNx2,  ///< two 4-bit floats in a byte; PyTorch counts the bytes as elements
  kComplex128,
  kComplex64,
  kComplex32,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUInt64,
  kUInt32,
  kUInt16,
  kUInt8,
  kBool,
};

inline constexpr int kDTypeCount = static_cast<int>(DType::kBool) + 1;

/// Bytes of one element: 1 to 16.
std::int64_t item_bytes(DType dtype);

/// PyTorch's name without "torch.": "float32", "bfloat16", "float8_e4m3fn".
std::string_view torch_name(DType dtype);
std::optional<DType> dtype_from_torch_name(std::string_view name);

/// The name in a safetensors header ("F32", "BF16"), or empty where the format has none
/// (complex32, complex128; safetensors 0.8, lib.rs Dtype).
std::string_view safetensors_name(DType dtype);
std::optional<DType> dtype_from_safetensors_name(std::string_view name);

/// float64, float32, float16 or bfloat16: the types a merge may cast between. All other types
/// (float8, float4, complex, integers, bool) are never cast.
bool is_castable_float(DType dtype);

/// Any real floating-point type, float8 and float4 included.
bool is_floating_point(DType dtype);

/// Signed or unsigned integer; bool is none.
bool is_integer(DType dtype);

}  // namespace shardkit
