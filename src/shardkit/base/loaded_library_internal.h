// LoadedLibrary: a shared library that is looked for when it is first needed.
#pragma once

#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>

#include "shardkit/base/result.h"

namespace shardkit {

/// Never unloaded.
class LoadedLibrary {
 public:
  /// The first of `names` that the process has loaded already, else the first that can be loaded.
  /// @param names  paths, or names that the system looks for; at least one
  /// @error kUnsupported none; the text is the system's, of the first
  static Result<LoadedLibrary> open(std::initializer_list<std::string> names);

  /// @param function  a pointer to a function of the symbol's type
  /// @error kUnsupported the library has no such symbol
  template <class F>
  Status find(const char* symbol, F& function) const {
    static_assert(std::is_pointer_v<F>);
    SHARDKIT_ASSIGN(void* const address, address_of(symbol));
    function = reinterpret_cast<F>(address);
    return {};
  }

 private:
  LoadedLibrary(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  Result<void*> address_of(const char* symbol) const;

  void* handle_;
  std::string name_;
};

}  // namespace shardkit
