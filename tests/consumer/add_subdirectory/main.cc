// Counts the tensors of the checkpoint argv[1].
#include <shardkit/inspect/inspection.h>

#include <iostream>

int main(int, char** argv) {
  const auto inspection = shardkit::inspect(shardkit::posix_file_system(), argv[1]);
  if (!inspection.ok()) {
    std::cerr << inspection.error().message() << "\n";
    return 1;
  }
  std::cout << inspection->tensors.size() << " tensors\n";
}
