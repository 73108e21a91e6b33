#include "cli/reading_options.h"

#include <CLI/CLI.hpp>

#include "cli/signals.h"
#include "shardkit/base/size_text.h"

namespace shardkit::cli {

void add_threads_option(CLI::App& command, int& threads) {
  command.add_option("--threads", threads, "Threads; 0: as many as cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

void add_reading_options(CLI::App& command, ReadingArguments& arguments) {
  add_threads_option(command, arguments.threads);
  command.add_option("--memory-budget", arguments.memory_budget, "Memory for buffers")
      ->capture_default_str();
  command
      .add_option("--replicas", arguments.replicas,
                  "compare: copies on other ranks must be equal; first: take the lowest rank's")
      ->check(CLI::IsMember({"compare", "first"}))
      ->capture_default_str();
  command
      .add_option("--plain-tensors", arguments.plain_tensors,
                  "What tensors without placements are: replicate, concat, or auto (copies "
                  "beside sharded tensors, else chunks of dimension 0)")
      ->check(CLI::IsMember({"auto", "replicate", "concat"}))
      ->capture_default_str();
}

void add_backend_option(CLI::App& command, VerlArguments& arguments) {
  command.add_option("--backend", arguments.backend, "Training backend: fsdp")
      ->check(CLI::IsMember({"fsdp", "megatron"}))
      ->capture_default_str();
}

void add_verl_flags(CLI::App& command, VerlArguments& arguments) {
  for (const char* flag : {"--trust-remote-code", "--tie-word-embedding", "--is-value-model",
                           "--use-cpu-initialization"})
    command.add_flag(flag, arguments.no_effect, "Taken for verl's scripts; needs no effect here");
}

Status check_backend(const VerlArguments& arguments) {
  if (arguments.backend == "fsdp") return {};
  return Error(ErrorCode::kUnsupported, "only the fsdp backend is supported")
      .found(arguments.backend);
}

Result<TransferOptions> transfer_options(const ReadingArguments& arguments) {
  TransferOptions options;
  SHARDKIT_ASSIGN(options.memory_budget, parse_size(arguments.memory_budget));
  options.threads = arguments.threads;
  options.cancel = &stop_requested();
  return options;
}

ReplicaPolicy replica_policy(const ReadingArguments& arguments) {
  return arguments.replicas == "first" ? ReplicaPolicy::kFirst : ReplicaPolicy::kCompare;
}

PlainTensors plain_tensors(const ReadingArguments& arguments) {
  if (arguments.plain_tensors == "replicate") return PlainTensors::kReplicate;
  if (arguments.plain_tensors == "concat") return PlainTensors::kConcat;
  return PlainTensors::kAuto;
}

}  // namespace shardkit::cli
