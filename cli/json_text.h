// What the commands' JSON results share.
#pragma once

#include <string>
#include <vector>

#include "shardkit/base/error.h"
#include "shardkit/json/value.h"

namespace shardkit::cli {

json::Array to_array(const std::vector<std::string>& texts);

/// "status": "error", and every part of the error that is known.
json::Object to_json(const Error& error);

}  // namespace shardkit::cli
