// Merges a checkpoint, shows how far it has come, and on Ctrl-C stops and leaves nothing behind.
#include <atomic>
#include <csignal>
#include <iostream>

#include "shardkit/io/file_system.h"
#include "shardkit/merge/fsdp_merger.h"

std::atomic<bool> stop = false;

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: merge CHECKPOINT MODEL\n";
    return 2;
  }
  std::signal(SIGINT, [](int) { stop = true; });

  shardkit::MergeOptions options;
  options.local_dir = argv[1];
  options.target_dir = argv[2];
  options.transfer.cancel = &stop;
  options.transfer.on_progress = [](const shardkit::Progress& progress) {
    std::cerr << progress.bytes_done << " of " << progress.bytes_total << " bytes\n";
  };

  shardkit::FSDPModelMerger merger(shardkit::posix_file_system(), options);
  const auto report = merger.merge_and_save();
  if (!report.ok()) {
    std::cerr << report.error().message() << "\n";
    return report.error().code() == shardkit::ErrorCode::kCancelled ? 130 : 1;
  }
  std::cout << report->summary.tensors << " tensors in " << report->target << "\n";
}
