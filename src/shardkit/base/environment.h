// Environment: the variables that a process was started with.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace shardkit {

/// The value of an environment variable, or none.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// This process' own. Not while another thread changes it.
Environment process_environment();

}  // namespace shardkit
