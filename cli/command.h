// What the commands share: where they print, exit codes, and how errors are told.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "shardkit/base/error.h"

namespace shardkit::cli {

enum ExitCode : int {
  kDone = 0,
  kDifferences = 1,  ///< a comparison found some
  kUsage = 2,
  kInputRefused = 3,
  kIoFailed = 4,  ///< the disk, or the network
  kOurBug = 70,
  kInterrupted = 130,
};

/// Where a command prints: results to `out`, everything else to `err`.
struct Streams {
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;
};

ExitCode exit_code(ErrorCode code);

/// Prints an error to err, and to out as a JSON object where `json` is set; returns its exit code.
int report_error(const Error& error, bool json, Streams& streams);

/// Runs the program: args without the program's name. Returns the exit code.
int run(std::vector<std::string> args, Streams& streams);

}  // namespace shardkit::cli
