// Merges the checkpoint argv[1] into the folder argv[2].
#include <shardkit/base/version.h>
#include <shardkit/merge/fsdp_merger.h>

#include <iostream>

int main(int, char** argv) {
  shardkit::MergeOptions options;
  options.local_dir = argv[1];
  options.target_dir = argv[2];
  shardkit::FSDPModelMerger merger(shardkit::posix_file_system(), options);
  const auto report = merger.merge_and_save();
  if (!report.ok()) {
    std::cerr << report.error().message() << "\n";
    return 1;
  }
  std::cout << "shardkit " << shardkit::version() << ": " << report->summary.tensors
            << " tensors\n";
}
