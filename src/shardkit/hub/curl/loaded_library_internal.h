// LoadedLibrary: a shared library that is looked for when it is first needed.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>
#include <type_traits>

#include "shardkit/base/result.h"

namespace shardkit::hub {

/// Never unloaded.
class LoadedLibrary {
 public:
  /// The first of `names` that is there. @error kUnsupported none is
  static Result<LoadedLibrary> open(std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (void* handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return LoadedLibrary(handle, name);
    return Error(ErrorCode::kUnsupported, std::string("uploads need ") + *names.begin() +
                                              ", which is not on this machine (Debian: libcurl4)");
  }

  /// @error kUnsupported it has no such function
  template <class F>
  Status find(const char* symbol, F& function) const {
    static_assert(std::is_pointer_v<F>);
    function = reinterpret_cast<F>(::dlsym(handle_, symbol));
    if (function) return {};
    return Error(ErrorCode::kUnsupported, std::string("this ") + name_ + " has no " + symbol);
  }

 private:
  LoadedLibrary(void* handle, const char* name) : handle_(handle), name_(name) {}

  void* handle_;
  const char* name_;
};

}  // namespace shardkit::hub
