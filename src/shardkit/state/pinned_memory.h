// HostPinner: what locks memory of the host so that a GPU copies it directly; the CUDA runtime.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "shardkit/base/result.h"

namespace shardkit {

/// Makes page-locked ("pinned") memory. Implementations are safe to use from many threads.
///
/// Nothing in shardkit links with the CUDA runtime: cuda_host_pinner() loads it when it is asked
/// for. An engine that has a pinner of its own, or a test, implements this interface.
class HostPinner {
 public:
  virtual ~HostPinner() = default;

  /// Fresh pinned memory with unspecified content, at the start of a page; free() gives it back.
  /// @param bytes  at least 1
  /// @error kLimit no memory; kUnsupported no device to pin for; kIo the runtime failed otherwise
  virtual Result<std::byte*> allocate(std::size_t bytes) = 0;
  virtual void free(std::byte* data) noexcept = 0;

  /// Pins memory that exists, [data, data + bytes); unpin() undoes it, before the memory goes.
  /// @error as allocate()
  virtual Status pin(std::byte* data, std::size_t bytes) = 0;
  virtual void unpin(std::byte* data) noexcept = 0;
};

/// The pinner of the CUDA runtime: libcudart.so.13, .12 or .11.0, one that the process has loaded
/// already before one that the system finds. Loaded by the first call, kept to the process's end.
///
/// It calls cudaHostAlloc and cudaFreeHost, cudaHostRegister and cudaHostUnregister, with the flag
/// Portable, so that the memory is pinned for all devices (PyTorch registers with the same flag:
/// torch 2.13, torch/distributed/_state_dict_utils.py and cuda/_pin_memory_utils.py). A failure is
/// taken off the runtime's error state, so that the engine's own checks do not meet it.
///
/// This has run with a stand-in for the runtime, and with the real one (13.0) where there is no
/// GPU, which says so; never with a GPU.
///
/// @error kUnsupported no such library can be loaded, or it lacks one of the functions
Result<std::shared_ptr<HostPinner>> cuda_host_pinner();

/// The same with the runtime at a path, or of a name that dlopen() finds.
Result<std::shared_ptr<HostPinner>> load_host_pinner(const std::string& library);

}  // namespace shardkit
