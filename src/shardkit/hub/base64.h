// Base64 (RFC 4648, section 4), as JSON carries bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace shardkit::hub {

std::string base64(std::span<const std::byte> bytes);

/// How long the text of so many bytes is. REQUIRES: bytes < 2^60.
constexpr std::uint64_t base64_size(std::uint64_t bytes) { return (bytes + 2) / 3 * 4; }

}  // namespace shardkit::hub
