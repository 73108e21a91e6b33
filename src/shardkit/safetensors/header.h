// The header of a safetensors file: what tensors it holds, and where their bytes lie.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shardkit/base/dims.h"
#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"
#include "shardkit/tensor/dtype.h"

namespace shardkit::safetensors {

/// Longest header that the official reader takes (safetensors 0.8, tensor.rs MAX_HEADER_SIZE).
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

/// One tensor: row-major, little-endian, without gaps.
struct TensorRecord {
  std::string name;
  DType dtype = DType::kFloat32;
  /// As PyTorch counts it. Two F4 elements share a byte and PyTorch's float4_e2m1fn_x2 counts
  /// bytes: the last size is half of what the file says.
  Dims shape;
  std::uint64_t begin = 0;  ///< bytes from the start of the data
  std::uint64_t end = 0;
};

struct Header {
  std::vector<std::pair<std::string, std::string>> metadata;  ///< `__metadata__`, in file order
  std::vector<TensorRecord> tensors;                          ///< in data order
  std::uint64_t data_offset = 0;                              ///< bytes before the data
};

/// Reads and checks a header. What it returns may be believed: the tensors tile the data exactly
/// (no hole, no overlap, nothing before or after them), each as long as its shape and dtype
/// demand, and the data ends where the file ends. At least as strict as safetensors 0.8;
/// docs/formats/safetensors.md lists the differences.
///
/// @error kCorrupt     breaks the format; the message names the tensor or the byte offset
/// @error kLimit       a header of more than kMaxHeaderBytes, a shape of more than Dims::kMaxDims
/// @error kUnsupported an element type that PyTorch lacks (F6_E2M3, F6_E3M2, or a new one), by name
/// @error kIo          as RandomAccessFile::read_at
/// Memory: the header's bytes and the result.
Result<Header> read_header(const RandomAccessFile& file);

}  // namespace shardkit::safetensors
