// The layout of a safetensors file to be written: its first bytes, and where each tensor goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shardkit/base/dims.h"
#include "shardkit/base/result.h"
#include "shardkit/tensor/dtype.h"

namespace shardkit::safetensors {

struct TensorSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  Dims shape;  ///< as PyTorch counts it
};

struct FileLayout {
  std::string head;                    ///< the file's first bytes: header length, JSON, padding
  std::vector<std::size_t> order;      ///< indices of the specs, as their data follow each other
  std::vector<std::uint64_t> offsets;  ///< bytes from the file's start, for each spec
  std::uint64_t file_bytes = 0;
};

/// Lays out a file byte for byte as safetensors.torch.save_file(tensors, path,
/// metadata={"format": "pt"}) does, which is what transformers' save_pretrained calls: data sorted
/// by element type (wide ones first), then by name, back to back (safetensors 0.8, tensor.rs
/// prepare()).
///
/// @param metadata  entries of `__metadata__` after that of the format
/// @error kUnsupported     a dtype that has no safetensors name (complex128, complex32), or a
///                         float4_e2m1fn_x2 scalar; the message names the tensor
/// @error kInvalidArgument two tensors of one name, the name "__metadata__", a name with a NUL or
///                         that is not UTF-8, a shape that is negative or overflows; an entry of
///                         the metadata that is not UTF-8, or whose key comes twice
/// @error kLimit           a header of more than kMaxHeaderBytes
Result<FileLayout> lay_out(std::span<const TensorSpec> tensors,
                           std::span<const std::pair<std::string, std::string>> metadata = {});

}  // namespace shardkit::safetensors
