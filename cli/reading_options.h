// Options that commands which read shards have in common, and what they mean to the library.
#pragma once

#include <string>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog_builder.h"
#include "shardkit/plan/plan.h"
#include "shardkit/transfer/transfer.h"

namespace CLI {
class App;
}

namespace shardkit::cli {

/// As the options say it.
struct ReadingArguments {
  int threads = 0;
  std::string memory_budget = "256MiB";
  std::string replicas = "compare";
  std::string plain_tensors = "auto";
};

/// What verl's scripts pass.
struct VerlArguments {
  std::string backend = "fsdp";
  bool no_effect = false;
};

// Arguments outlive the parsing.
void add_threads_option(CLI::App& command, int& threads);
/// --threads, --memory-budget, --replicas and --plain-tensors.
void add_reading_options(CLI::App& command, ReadingArguments& arguments);
void add_backend_option(CLI::App& command, VerlArguments& arguments);
/// Flags of verl's merger that need no effect here.
void add_verl_flags(CLI::App& command, VerlArguments& arguments);

/// @error kUnsupported another one than fsdp
Status check_backend(const VerlArguments& arguments);
/// Without progress; cancelled by signals.
/// @error as parse_size
Result<TransferOptions> transfer_options(const ReadingArguments& arguments);
ReplicaPolicy replica_policy(const ReadingArguments& arguments);
PlainTensors plain_tensors(const ReadingArguments& arguments);

}  // namespace shardkit::cli
