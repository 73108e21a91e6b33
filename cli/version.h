// The program's version.
#pragma once

#include <string_view>

namespace shardkit::cli {

inline constexpr std::string_view kVersion = "shardkit 0.1.0";

}  // namespace shardkit::cli
