// The allow list: which globals a .pt file may name, and what each means to the reader.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "shardkit/tensor/dtype.h"

namespace shardkit {

/// What the reader does with a global.
enum class GlobalRole : std::uint8_t {
  kRefused,  ///< not on the list

  // Plain Python
  kDict,  ///< dict, OrderedDict, Counter: pairs set one by one, or one dict as argument
  kDefaultDict,
  kList,
  kTuple,  ///< tuple and torch.Size
  kSet,
  kBytes,    ///< bytes and bytearray
  kEncode,   ///< _codecs.encode: how protocol 2 writes bytes
  kGetattr,  ///< only for the nested classes named by is_allowed_attribute()
  kOpaque,   ///< known by name, kept as Opaque

  // Tensors (torch/_utils.py, torch/_tensor.py)
  kDType,
  kTypedStorage,    ///< torch.FloatStorage: names the dtype
  kUntypedStorage,  ///< torch.UntypedStorage: counts bytes
  kTensorClass,     ///< Tensor, Parameter, Buffer: no more than a tensor
  kRebuildTensor,
  kRebuildTensorV2,
  kRebuildTensorV3,
  kRebuildMetaTensor,
  kRebuildParameter,  ///< with or without state
  kRebuildFromType,   ///< v1 and v2
  kRebuildWrapperSubclass,
  kUnsupportedTensor,  ///< quantized, sparse, nested: refused by name
  kUnsupportedDType,   ///< quantized and sub-byte element types

  // torch.distributed.tensor
  kDTensor,
  kDTensorSpec,
  kTensorMeta,
  kShardOrderEntry,
  kDeviceMesh,
  kMeshLayout,
  kFlatLayout,
  kShard,
  kStridedShard,
  kReplicate,
  kPartial,
  kUnsupportedPlacement,  ///< _MaskPartial, _NormPartial: more state than a reduction
  kReduceOpClass,

  // torch.distributed._shard
  kShardedTensor,
  kShardedTensorMetadata,
  kTensorProperties,
  kShardMetadata,
  kLocalShard,
  kRemoteDevice,
};

struct GlobalMeaning {
  GlobalRole role = GlobalRole::kRefused;
  std::optional<DType> dtype;  ///< of kDType and kTypedStorage
};

/// @param module, name  as the pickle has them; old and new module paths mean the same
GlobalMeaning meaning_of_global(std::string_view module, std::string_view name);

/// meaning_of_global() != kRefused, in the form the pickle machine wants.
bool is_allowed_global(std::string_view module, std::string_view name);

/// Whether getattr(class, attribute) may stand for a nested class or an enum member. Protocols
/// below 4 write those so.
bool is_allowed_attribute(GlobalRole role, std::string_view class_name, std::string_view attribute);

/// Module names of protocol 2 in Python 3's spelling: "__builtin__" is "builtins".
std::string_view canonical_module(std::string_view module);

}  // namespace shardkit
