#include "shardkit/base/version.h"

namespace shardkit {

std::string_view version() { return SHARDKIT_VERSION; }

}  // namespace shardkit
