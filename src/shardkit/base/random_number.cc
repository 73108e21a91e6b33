// Random bits of the kernel's.
#include "shardkit/base/random_number.h"

#include <sys/random.h>

#include <cerrno>

namespace shardkit {

Result<std::uint64_t> random_number() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number))
    return Error(ErrorCode::kIo, "the system gave no random number").from_system(errno);
  return number;
}

}  // namespace shardkit
