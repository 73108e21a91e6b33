#include "shardkit/base/environment.h"

#include <cstdlib>

namespace shardkit {

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (!value) return std::nullopt;
    return std::string(value);
  };
}

}  // namespace shardkit
