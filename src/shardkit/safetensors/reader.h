// A safetensors file as a state dict whose tensors lie in the file.
#pragma once

#include <string>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"
#include "shardkit/state/value.h"

namespace shardkit::safetensors {

/// Name -> Tensor, in data order. Each tensor has a storage of its own, a FileRange of exactly its
/// bytes, and is contiguous. Reads the header only.
///
/// @error as FileSystem::open and read_header; the message names the file
Result<Dict> read_safetensors(FileSystem& fs, const std::string& path);

}  // namespace shardkit::safetensors
