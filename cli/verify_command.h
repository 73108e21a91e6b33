// `shardkit verify`: whether a merged folder still is what was written.
#pragma once

#include "cli/command.h"

namespace CLI {
class App;
}

namespace shardkit::cli {

/// As add_merge_command().
void add_verify_command(CLI::App& app, Streams& streams, int& result);

}  // namespace shardkit::cli
