#include <dlfcn.h>

#include "shardkit/base/loaded_library_internal.h"

namespace shardkit {

Result<LoadedLibrary> LoadedLibrary::open(std::initializer_list<std::string> names) {
  for (const int flags : {RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD, RTLD_NOW | RTLD_LOCAL})
    for (const std::string& name : names)
      if (void* handle = ::dlopen(name.c_str(), flags)) return LoadedLibrary(handle, name);
  const char* reason = ::dlerror();
  return Error(ErrorCode::kUnsupported, reason ? reason : "unknown");
}

Result<void*> LoadedLibrary::address_of(const char* symbol) const {
  if (void* address = ::dlsym(handle_, symbol)) return address;
  return Error(ErrorCode::kUnsupported, "this " + name_ + " has no " + symbol).in_file(name_);
}

}  // namespace shardkit
