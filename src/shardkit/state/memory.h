// Tensors in memory: making them, reaching their bytes, and whole state dicts of fresh ones.
#pragma once

#include <cstddef>

#include "shardkit/base/result.h"
#include "shardkit/state/value.h"

namespace shardkit {

/// A contiguous tensor of zeros in memory of its own, at an address that 64 divides.
///
/// @param shape  sizes >= 0
/// @error kInvalidArgument a size is negative or the bytes overflow; kLimit no memory
Result<Tensor> make_cpu_tensor(DType dtype, const Dims& shape);

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
/// Unlike PyTorch's, memory is zero where torch.empty leaves what was there, and a DTensor without
/// dimensions is new too, where PyTorch hands out the one it was given.
///
/// @error kInvalidArgument a tensor lies in a file, or a meta tensor in a set or Opaque would have
///        to be copied; kCorrupt a view leaves its storage; kLimit no memory. The path is named.
Result<Value> create_cpu_state_dict(const Value& state);

}  // namespace shardkit
