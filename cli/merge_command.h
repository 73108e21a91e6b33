// `shardkit merge`: an FSDP checkpoint to a Hugging Face model folder.
#pragma once

#include "cli/command.h"

namespace CLI {
class App;
}

namespace shardkit::cli {

/// Adds the command; when it is chosen it runs while the arguments are parsed, and sets `result`
/// to its exit code. Both references must outlive the parsing.
void add_merge_command(CLI::App& app, Streams& streams, int& result);

}  // namespace shardkit::cli
