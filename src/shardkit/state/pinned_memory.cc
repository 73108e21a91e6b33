// Calls the CUDA runtime, which is loaded when it is asked for.
#include "shardkit/state/pinned_memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "shardkit/base/loaded_library_internal.h"

namespace shardkit {
namespace {

// Of cuda_runtime_api.h and driver_types.h; the same from CUDA 11 to 13.
constexpr unsigned kPortable = 1;  // cudaHostAllocPortable and cudaHostRegisterPortable
constexpr int kErrorMemoryAllocation = 2;
constexpr std::array kErrorsWithoutDevice{
    3,    // cudaErrorInitializationError
    34,   // cudaErrorStubLibrary
    35,   // cudaErrorInsufficientDriver
    46,   // cudaErrorDevicesUnavailable
    100,  // cudaErrorNoDevice
};

class CudaHostPinner : public HostPinner {
 public:
  Status find_functions(const LoadedLibrary& library) {
    SHARDKIT_TRY(library.find("cudaHostAlloc", host_alloc_));
    SHARDKIT_TRY(library.find("cudaFreeHost", free_host_));
    SHARDKIT_TRY(library.find("cudaHostRegister", host_register_));
    SHARDKIT_TRY(library.find("cudaHostUnregister", host_unregister_));
    SHARDKIT_TRY(library.find("cudaGetLastError", get_last_error_));
    return library.find("cudaGetErrorString", get_error_string_);
  }

  Result<std::byte*> allocate(std::size_t bytes) override {
    void* data = nullptr;
    SHARDKIT_TRY(check("cudaHostAlloc", bytes, host_alloc_(&data, bytes, kPortable)));
    return static_cast<std::byte*>(data);
  }
  void free(std::byte* data) noexcept override { forget_error(free_host_(data)); }

  Status pin(std::byte* data, std::size_t bytes) override {
    return check("cudaHostRegister", bytes, host_register_(data, bytes, kPortable));
  }
  void unpin(std::byte* data) noexcept override { forget_error(host_unregister_(data)); }

 private:
  void forget_error(int code) const noexcept {
    if (code != 0) get_last_error_();
  }

  Status check(std::string_view function, std::size_t bytes, int code) const {
    if (code == 0) return {};
    forget_error(code);
    ErrorCode kind = code == kErrorMemoryAllocation ? ErrorCode::kLimit : ErrorCode::kIo;
    for (const int without : kErrorsWithoutDevice)
      if (code == without) kind = ErrorCode::kUnsupported;
    return Error(kind, fmt::format("pin_memory: {} of {} bytes failed with {}: {}", function, bytes,
                                   code, get_error_string_(code)));
  }

  int (*host_alloc_)(void**, std::size_t, unsigned) = nullptr;
  int (*free_host_)(void*) = nullptr;
  int (*host_register_)(void*, std::size_t, unsigned) = nullptr;
  int (*host_unregister_)(void*) = nullptr;
  int (*get_last_error_)() = nullptr;
  const char* (*get_error_string_)(int) = nullptr;
};

// A library stays loaded: pinned memory may be freed at any time up to the process's end.
Result<std::shared_ptr<HostPinner>> load_first(std::initializer_list<std::string> names) {
  const auto library = LoadedLibrary::open(names);
  if (!library.ok())
    return Error(ErrorCode::kUnsupported,
                 fmt::format("pin_memory needs the CUDA runtime, which cannot be loaded: {}",
                             library.error().what()))
        .expected(fmt::format("{}", fmt::join(names, ", ")));
  auto pinner = std::make_shared<CudaHostPinner>();
  SHARDKIT_TRY(pinner->find_functions(*library));
  return std::shared_ptr<HostPinner>(std::move(pinner));
}

}  // namespace

Result<std::shared_ptr<HostPinner>> load_host_pinner(const std::string& library) {
  return load_first({library});
}

Result<std::shared_ptr<HostPinner>> cuda_host_pinner() {
  static std::mutex mutex;
  static std::shared_ptr<HostPinner> pinner;
  const std::lock_guard lock(mutex);
  if (pinner) return pinner;
  SHARDKIT_ASSIGN(pinner, load_first({"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"}));
  return pinner;
}

}  // namespace shardkit
