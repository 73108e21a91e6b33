// version(): which shardkit this is.
#pragma once

#include <string_view>

namespace shardkit {

/// "major.minor.patch"; project(VERSION) in CMakeLists.txt is where it is set.
std::string_view version();

}  // namespace shardkit
