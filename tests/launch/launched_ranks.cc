// A program for launchers: its processes make a group and add up their ranks.
//
// Prints "rank R of N by LAUNCHER: SUM", or the error, and then exits 1.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <span>

#include "shardkit/collective/gloo/gloo_group.h"
#include "shardkit/collective/launch_environment.h"

namespace shardkit {
namespace {

Result<std::int64_t> add_up_ranks(const LaunchEnvironment& environment) {
  GlooOptions options;
  options.group.timeout = std::chrono::seconds(30);
  options.start_timeout = std::chrono::seconds(30);
  SHARDKIT_ASSIGN(const auto group, make_gloo_group(environment, options));
  std::int64_t sum = group->rank();
  SHARDKIT_TRY(group->all_reduce(Accumulation::kSum, DType::kInt64,
                                 std::as_writable_bytes(std::span(&sum, 1))));
  return sum;
}

int run() {
  const auto environment = read_launch_environment();
  const auto sum = environment.ok() ? add_up_ranks(*environment) : environment.error();
  if (!sum.ok()) {
    std::printf("%s\n", sum.error().message().c_str());
    return 1;
  }
  std::printf("rank %d of %d by %s: %lld\n", environment->rank, environment->size,
              environment->launcher.c_str(), static_cast<long long>(*sum));
  return 0;
}

}  // namespace
}  // namespace shardkit

int main() { return shardkit::run(); }
