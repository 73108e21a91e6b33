// Tensors in memory: making them, reaching their bytes, and whole state dicts of fresh ones.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "shardkit/base/result.h"
#include "shardkit/state/pinned_memory.h"
#include "shardkit/state/value.h"

namespace shardkit {

/// In what kind of memory fresh tensors lie. Both may be asked for: shared, then pinned.
struct MemoryOptions {
  /// Each tensor in POSIX shared memory of its own, which shared_memory_name() names.
  bool share_memory = false;
  /// Page-locked, so that a GPU copies directly. A tensor without elements is not pinned.
  bool pin_memory = false;
  /// What pins; null: cuda_host_pinner(), loaded when the first tensor is made.
  std::shared_ptr<HostPinner> pinner = nullptr;
};

/// A contiguous tensor of zeros in memory of its own, at an address that 64 divides.
///
/// Large ones ask the system for huge pages, which makes their first filling three times as fast
/// (measured: 512 MiB in 0.08 instead of 0.26 seconds). The memory is given back (unpinned, its
/// name removed) with the last tensor that looks at it.
///
/// @param shape  sizes >= 0
/// @error kInvalidArgument a size is negative or the bytes overflow; kLimit no memory; as
///        SharedMemory::create(), cuda_host_pinner() and HostPinner
Result<Tensor> make_cpu_tensor(DType dtype, const Dims& shape, const MemoryOptions& memory = {});

/// The same with unspecified elements, for a caller that writes all of them.
Result<Tensor> make_unfilled_cpu_tensor(DType dtype, const Dims& shape,
                                        const MemoryOptions& memory = {});

/// The name of the shared memory that a tensor lies in, for open_shared_tensor() in another
/// process; nothing if it lies elsewhere. See SharedMemory for who removes the name.
std::optional<std::string> shared_memory_name(const Tensor& tensor);

/// A contiguous tensor that another process, or this one, has made with share_memory: the same
/// bytes, not a copy.
///
/// @param name          from shared_memory_name()
/// @param dtype, shape  as there; bytes of another number are refused
/// @error as SharedMemory::open(); kInvalidArgument also for a shape that no tensor can have
Result<Tensor> open_shared_tensor(const std::string& name, DType dtype, const Dims& shape);

/// The address of a view's first element; null if it has no element.
///
/// @error kInvalidArgument the tensor lies in a file, or has no bytes (meta)
///        kCorrupt the view leaves its storage
Result<std::byte*> first_element(const Tensor& tensor);

/// Another state of the same structure with the same plain values, whose tensors are new,
/// contiguous, zero, and in memory of their own: what copy_state_dict() copies into (torch 2.13,
/// torch/distributed/_state_dict_utils.py, _create_cpu_state_dict).
///
/// Shapes and dtypes stay, without dimensions and without elements too; a meta tensor gets bytes.
/// DTensors and ShardedTensors keep their spec, which both states share. As in PyTorch, tensors
/// that share memory do so no more, and what is neither a tensor nor a plain value nor a dict, list
/// or tuple (sets, Opaque) is copied with all it holds, tensors with their elements.
///
/// Unlike PyTorch's, memory is zero where torch.empty leaves what was there, a DTensor without
/// dimensions is new too, where PyTorch hands out the one it was given, and tensors without
/// dimensions are shared and pinned like the others. What is copied with a set or an Opaque lies in
/// ordinary memory, as in PyTorch.
///
/// @param memory  of the new tensors; each is shared under a name of its own and pinned by itself
/// @error kInvalidArgument a tensor lies in a file, or a meta tensor in a set or Opaque would have
///        to be copied; kCorrupt a view leaves its storage; as make_cpu_tensor(). The path is
///        named; what was made until then is gone.
Result<Value> create_cpu_state_dict(const Value& state, const MemoryOptions& memory = {});

}  // namespace shardkit
