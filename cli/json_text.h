// What the commands' JSON results share.
#pragma once

#include <string>
#include <vector>

#include "shardkit/json/value.h"

namespace shardkit::cli {

json::Array to_array(const std::vector<std::string>& texts);

}  // namespace shardkit::cli
