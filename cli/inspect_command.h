// `shardkit inspect`: what a checkpoint, file or model folder holds.
#pragma once

#include "cli/command.h"

namespace CLI {
class App;
}

namespace shardkit::cli {

/// As add_merge_command().
void add_inspect_command(CLI::App& app, Streams& streams, int& result);

}  // namespace shardkit::cli
