#include <unistd.h>

#include <exception>
#include <iostream>

#include "cli/command.h"
#include "cli/signals.h"

int main(int argc, char** argv) {
  shardkit::cli::Streams streams{std::cout, std::cerr, ::isatty(STDERR_FILENO) == 1};
  shardkit::cli::handle_stop_signals();
  try {
    const int code = shardkit::cli::run({argv + 1, argv + argc}, streams);
    std::cout.flush();
    if (!std::cout) {
      std::cerr << "shardkit: cannot write to standard output\n";
      return shardkit::cli::kIoFailed;
    }
    return code == shardkit::cli::kInterrupted ? shardkit::cli::stop_exit_code() : code;
  } catch (const std::exception& error) {
    std::cerr << "shardkit: a bug in shardkit: " << error.what() << "\n";
    return shardkit::cli::kOurBug;
  }
}
