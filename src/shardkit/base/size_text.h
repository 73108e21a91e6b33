// Sizes in bytes as people write them: "5GB", "256MiB", and back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shardkit/base/result.h"

namespace shardkit {

/// Bytes of a text such as "5GB", "1.5 MiB" or "4096".
///
/// Units, in any case: B; KB, MB, GB, TB are powers of 1000, as Hugging Face has them
/// (huggingface_hub serialization/_base.py, SIZE_UNITS); KiB, MiB, GiB, TiB powers of 1024. No
/// unit means bytes. A fraction needs a unit; what is left below one byte is cut off.
///
/// @error kInvalidArgument no such text, or more than 2^63 - 1 bytes; it says what is taken
Result<std::uint64_t> parse_size(std::string_view text);

/// For people: "999 B", "1.5 kB", "2.0 GB", in powers of 1000 with one decimal.
std::string format_bytes(std::uint64_t bytes);

}  // namespace shardkit
