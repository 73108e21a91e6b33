// NoThreads: while it lives, the system starts no thread in this process.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace shardkit::testing {

/// New threads get stacks that are larger than what a process can address.
class NoThreads {
 public:
  NoThreads() {
    ::pthread_getattr_default_np(&before_);
    pthread_attr_t now;
    ::pthread_getattr_default_np(&now);
    ::pthread_attr_setstacksize(&now, std::size_t{1} << 52);
    ::pthread_setattr_default_np(&now);
    ::pthread_attr_destroy(&now);
  }
  ~NoThreads() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace shardkit::testing
