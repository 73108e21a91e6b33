// Gloo groups in a build without Gloo.
#include "shardkit/collective/gloo/gloo_group.h"

namespace shardkit {
namespace {

Error unsupported() {
  return Error(ErrorCode::kUnsupported,
               "this build has no Gloo: install libgloo-dev and build shardkit again");
}

}  // namespace

bool gloo_is_available() { return false; }

Result<std::unique_ptr<ProcessGroup>> make_gloo_group(const LaunchEnvironment&,
                                                      const GlooOptions&) {
  return unsupported();
}

Result<std::unique_ptr<ProcessGroup>> make_gloo_group(const std::string&, int, int,
                                                      const GlooOptions&) {
  return unsupported();
}

}  // namespace shardkit
