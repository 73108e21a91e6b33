// `shardkit test` and `shardkit diff`: tensors of two places, compared.
#pragma once

#include "cli/command.h"

namespace CLI {
class App;
}

namespace shardkit::cli {

/// As add_merge_command(); a checkpoint against a reference model.
void add_test_command(CLI::App& app, Streams& streams, int& result);

/// As add_merge_command(); any two things that hold tensors.
void add_diff_command(CLI::App& app, Streams& streams, int& result);

}  // namespace shardkit::cli
