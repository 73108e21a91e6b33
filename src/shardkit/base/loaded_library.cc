#include <dlfcn.h>

#include "shardkit/base/loaded_library_internal.h"

namespace shardkit {

Result<LoadedLibrary> LoadedLibrary::open(std::initializer_list<std::string> names) {
  for (const std::string& name : names)
    if (void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD))
      return LoadedLibrary(handle, name);
  std::string why;
  for (const std::string& name : names) {
    if (void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL))
      return LoadedLibrary(handle, name);
    if (const char* reason = ::dlerror(); reason && why.empty()) why = reason;
  }
  return Error(ErrorCode::kUnsupported, why.empty() ? "no library is named" : why);
}

Result<void*> LoadedLibrary::address_of(const char* symbol) const {
  if (void* address = ::dlsym(handle_, symbol)) return address;
  return Error(ErrorCode::kUnsupported, "this " + name_ + " has no " + symbol).in_file(name_);
}

}  // namespace shardkit
