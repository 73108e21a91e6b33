// random_number(): numbers that no two processes share, for names.
#pragma once

#include <cstdint>

#include "shardkit/base/result.h"

namespace shardkit {

/// 64 random bits of the system's (getrandom(2)). @error kIo the system has none
Result<std::uint64_t> random_number();

}  // namespace shardkit
