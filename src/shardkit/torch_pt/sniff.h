// What a file that is no .pt archive seems to be, told from its first bytes.
#pragma once

#include <cstdint>
#include <string_view>

#include "shardkit/base/result.h"

namespace shardkit {

/// Bytes of a file's beginning that check_looks_like_pt() wants; fewer if the file is shorter.
inline constexpr std::size_t kSniffBytes = 512;

/// Success if the file begins as a zip archive does.
///
/// @param head  the file's first kSniffBytes
/// @param size  bytes of the whole file
/// @error kCorrupt something else stands in its place (an LFS pointer, a web page, JSON, nothing);
///        kUnsupported a format that shardkit does not read as .pt (legacy .pt, tar, safetensors, a
///        bare pickle, a compressed file)
Status check_looks_like_pt(std::string_view head, std::uint64_t size);

}  // namespace shardkit
