// Lists the tensors of one .pt file, argv[1].
#include <shardkit/inspect/inspection.h>

#include <iostream>

int main(int, char** argv) {
  const auto inspection = shardkit::inspect(shardkit::posix_file_system(), argv[1]);
  if (!inspection.ok()) {
    std::cerr << inspection.error().message() << "\n";
    return 1;
  }
  for (const shardkit::TensorRow& row : inspection->tensors)
    std::cout << row.name << " " << row.dtype << " " << shardkit::to_string(row.shape) << "\n";
}
