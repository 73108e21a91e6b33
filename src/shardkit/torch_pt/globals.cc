// The table of allowed globals. Everything here is inert: a name, never a call.
#include "shardkit/torch_pt/globals.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

namespace shardkit {
namespace {

struct Row {
  std::string_view module;
  std::string_view name;
  GlobalRole role;
};

using enum GlobalRole;

constexpr Row kRows[] = {
    {"builtins", "dict", kDict},
    {"builtins", "list", kList},
    {"builtins", "tuple", kTuple},
    {"builtins", "set", kSet},
    {"builtins", "frozenset", kSet},
    {"builtins", "bytes", kBytes},
    {"builtins", "bytearray", kBytes},
    {"builtins", "getattr", kGetattr},
    {"builtins", "complex", kOpaque},
    {"builtins", "range", kOpaque},
    {"builtins", "xrange", kOpaque},
    {"builtins", "slice", kOpaque},
    {"builtins", "int", kOpaque},
    {"builtins", "long", kOpaque},
    {"builtins", "float", kOpaque},
    {"builtins", "bool", kOpaque},
    {"builtins", "str", kOpaque},
    {"builtins", "unicode", kOpaque},
    {"builtins", "object", kOpaque},
    {"builtins", "Ellipsis", kOpaque},
    {"builtins", "NotImplemented", kOpaque},
    {"_codecs", "encode", kEncode},
    {"copyreg", "_reconstructor", kOpaque},
    {"collections", "OrderedDict", kDict},
    {"collections", "Counter", kDict},
    {"collections", "defaultdict", kDefaultDict},
    {"collections", "deque", kOpaque},
    {"argparse", "Namespace", kOpaque},
    {"types", "SimpleNamespace", kOpaque},
    {"datetime", "date", kOpaque},
    {"datetime", "datetime", kOpaque},
    {"datetime", "time", kOpaque},
    {"datetime", "timedelta", kOpaque},
    {"datetime", "timezone", kOpaque},
    {"decimal", "Decimal", kOpaque},
    {"fractions", "Fraction", kOpaque},
    {"uuid", "UUID", kOpaque},
    {"_io", "BytesIO", kOpaque},
    {"io", "BytesIO", kOpaque},
    {"pathlib", "Path", kOpaque},
    {"pathlib", "PosixPath", kOpaque},
    {"pathlib", "WindowsPath", kOpaque},
    {"pathlib", "PurePath", kOpaque},
    {"pathlib", "PurePosixPath", kOpaque},
    {"pathlib", "PureWindowsPath", kOpaque},

    {"numpy", "ndarray", kOpaque},
    {"numpy", "dtype", kOpaque},
    {"numpy.core.multiarray", "_reconstruct", kOpaque},
    {"numpy.core.multiarray", "scalar", kOpaque},
    {"numpy.core.numeric", "_frombuffer", kOpaque},
    {"numpy.random._pickle", "__randomstate_ctor", kOpaque},
    {"numpy.random._pickle", "__generator_ctor", kOpaque},
    {"numpy.random._pickle", "__bit_generator_ctor", kOpaque},
    {"numpy.random.bit_generator", "SeedSequence", kOpaque},
    {"numpy.random.bit_generator", "__pyx_unpickle_SeedSequence", kOpaque},
    {"numpy.random._mt19937", "MT19937", kOpaque},
    {"numpy.random._pcg64", "PCG64", kOpaque},
    {"numpy.random._pcg64", "PCG64DXSM", kOpaque},
    {"numpy.random._philox", "Philox", kOpaque},
    {"numpy.random._sfc64", "SFC64", kOpaque},

    {"torch", "Size", kTuple},
    {"torch", "device", kOpaque},
    {"torch", "Generator", kOpaque},
    {"torch._C", "Generator", kOpaque},
    {"torch.serialization", "_get_layout", kOpaque},
    {"torch", "strided", kOpaque},
    {"torch", "contiguous_format", kOpaque},
    {"torch", "channels_last", kOpaque},
    {"torch", "channels_last_3d", kOpaque},
    {"torch", "preserve_format", kOpaque},
    {"torch", "per_tensor_affine", kOpaque},
    {"torch", "per_channel_affine", kOpaque},
    {"torch", "per_channel_affine_float_qparams", kOpaque},
    {"torch", "per_tensor_symmetric", kOpaque},
    {"torch", "per_channel_symmetric", kOpaque},
    {"torch", "UntypedStorage", kUntypedStorage},
    {"torch.storage", "UntypedStorage", kUntypedStorage},
    {"torch", "Tensor", kTensorClass},
    {"torch._tensor", "Tensor", kTensorClass},
    {"torch.nn.parameter", "Parameter", kTensorClass},
    {"torch.nn", "Parameter", kTensorClass},
    {"torch.nn.parameter", "Buffer", kTensorClass},
    {"torch.nn", "Buffer", kTensorClass},
    {"torch._utils", "_rebuild_tensor", kRebuildTensor},
    {"torch._utils", "_rebuild_tensor_v2", kRebuildTensorV2},
    {"torch._utils", "_rebuild_tensor_v3", kRebuildTensorV3},
    {"torch._utils", "_rebuild_meta_tensor_no_storage", kRebuildMetaTensor},
    {"torch._utils", "_rebuild_parameter", kRebuildParameter},
    {"torch._utils", "_rebuild_parameter_with_state", kRebuildParameter},
    {"torch._tensor", "_rebuild_from_type", kRebuildFromType},
    {"torch._tensor", "_rebuild_from_type_v2", kRebuildFromType},
    {"torch._utils", "_rebuild_wrapper_subclass", kRebuildWrapperSubclass},
    {"torch._utils", "_rebuild_qtensor", kUnsupportedTensor},
    {"torch._utils", "_rebuild_sparse_tensor", kUnsupportedTensor},
    {"torch._utils", "_rebuild_sparse_csr_tensor", kUnsupportedTensor},
    {"torch._utils", "_rebuild_nested_tensor", kUnsupportedTensor},
    {"torch._utils", "_rebuild_device_tensor_from_numpy", kUnsupportedTensor},
    {"torch._utils", "_rebuild_device_tensor_from_cpu_tensor", kUnsupportedTensor},
    {"torch._utils", "_rebuild_xla_tensor", kUnsupportedTensor},
    {"torch.nested._internal.nested_tensor", "NestedTensor", kUnsupportedTensor},
    {"torch.nested._internal.nested_tensor", "_rebuild_njt", kUnsupportedTensor},
    {"torch._dynamo.decorators", "_DimRange", kOpaque},  // in the state of a jagged tensor
    {"torch.distributed._functional_collectives", "AsyncCollectiveTensor", kUnsupportedTensor},

    {"torch.distributed.device_mesh", "DeviceMesh", kDeviceMesh},
    {"torch.distributed.tensor.device_mesh", "DeviceMesh", kDeviceMesh},
    {"torch.distributed._mesh_layout", "_MeshLayout", kMeshLayout},
    {"torch.distributed._mesh_layout", "_FlatLayout", kFlatLayout},
    // In 2.13: torch.distributed.distributed_c10d.
    {"torch.distributed.distributed_c10d", "ReduceOp", kReduceOpClass},
    {"torch.distributed.distributed_c10d", "ReduceOp.RedOpType", kReduceOpClass},
    {"torch._C._distributed_c10d", "ReduceOp", kReduceOpClass},
    {"torch._C._distributed_c10d", "ReduceOp.RedOpType", kReduceOpClass},
    {"torch._C._distributed_c10d", "RedOpType", kReduceOpClass},

    {"torch.distributed._shard.sharded_tensor.api", "ShardedTensor", kShardedTensor},
    {"torch.distributed._shard.sharded_tensor.api", "ShardedTensor.ProcessGroupState", kOpaque},
    {"torch.distributed._shard.sharded_tensor.metadata", "ShardedTensorMetadata",
     kShardedTensorMetadata},
    {"torch.distributed._shard.sharded_tensor.metadata", "TensorProperties", kTensorProperties},
    {"torch.distributed._shard.sharded_tensor.metadata", "MEM_FORMAT_ENCODING", kOpaque},
    {"torch.distributed._shard.sharded_tensor.shard", "Shard", kLocalShard},
    {"torch.distributed._shard.metadata", "ShardMetadata", kShardMetadata},
    {"torch.distributed._shard.sharding_spec._internals", "ShardMetadata", kShardMetadata},
    {"torch.distributed._shard.sharding_spec.chunk_sharding_spec", "ChunkShardingSpec", kOpaque},
    {"torch.distributed._shard.sharding_spec.api", "ChunkShardingSpec", kOpaque},
    {"torch.distributed._shard.sharding_spec.api", "EnumerableShardingSpec", kOpaque},
    {"torch.distributed.remote_device", "_remote_device", kRemoteDevice},
};

/// What torch.distributed.tensor defines; the package was torch.distributed._tensor up to 2.4, and
/// its modules have moved within it.
constexpr Row kDTensorRows[] = {
    {"", "DTensor", kDTensor},
    {"", "DTensorSpec", kDTensorSpec},
    {"", "TensorMeta", kTensorMeta},
    {"", "ShardOrderEntry", kShardOrderEntry},
    {"", "DeviceMesh", kDeviceMesh},
    {"", "Shard", kShard},
    {"", "_StridedShard", kStridedShard},
    {"", "Replicate", kReplicate},
    {"", "Partial", kPartial},
    {"", "_Partial", kPartial},
    {"", "_MaskPartial", kUnsupportedPlacement},
    {"", "_NormPartial", kUnsupportedPlacement},
};

/// The module below the DTensor package: "" for the package itself; nothing if it is elsewhere.
std::optional<std::string_view> below_dtensor_package(std::string_view module) {
  for (const std::string_view package : {"torch.distributed.tensor", "torch.distributed._tensor"}) {
    if (module == package) return "";
    if (module.starts_with(package) && module[package.size()] == '.')
      return module.substr(package.size() + 1);
  }
  return std::nullopt;
}

bool is_dtensor_module(std::string_view module) {
  const auto below = below_dtensor_package(module);
  if (!below) return false;
  constexpr std::string_view kModules[] = {"",
                                           "api",
                                           "_api",
                                           "placement_types",
                                           "_placement_types",
                                           "_dtensor_spec",
                                           "device_mesh",
                                           "_ops._math_ops",
                                           "_ops._embedding_ops",
                                           "_ops.math_ops",
                                           "_ops.embedding_ops",
                                           "ops.math_ops",
                                           "ops.embedding_ops"};
  return std::find(std::begin(kModules), std::end(kModules), *below) != std::end(kModules);
}

/// "FloatStorage" and its kin (torch/storage.py, _dtype_to_storage_type_map).
std::optional<DType> dtype_of_storage(std::string_view name) {
  constexpr std::pair<std::string_view, DType> kStorages[] = {
      {"DoubleStorage", DType::kFloat64},
      {"FloatStorage", DType::kFloat32},
      {"HalfStorage", DType::kFloat16},
      {"BFloat16Storage", DType::kBFloat16},
      {"LongStorage", DType::kInt64},
      {"IntStorage", DType::kInt32},
      {"ShortStorage", DType::kInt16},
      {"CharStorage", DType::kInt8},
      {"ByteStorage", DType::kUInt8},
      {"BoolStorage", DType::kBool},
      {"ComplexDoubleStorage", DType::kComplex128},
      {"ComplexFloatStorage", DType::kComplex64}};
  for (const auto& [storage, dtype] : kStorages)
    if (storage == name) return dtype;
  return std::nullopt;
}

bool is_unsupported_dtype(std::string_view name) {
  constexpr std::string_view kNames[] = {"qint8",
                                         "quint8",
                                         "qint32",
                                         "quint4x2",
                                         "quint2x4",
                                         "QInt8Storage",
                                         "QUInt8Storage",
                                         "QInt32Storage",
                                         "QUInt4x2Storage",
                                         "QUInt2x4Storage",
                                         "bits1x8",
                                         "bits2x4",
                                         "bits4x2",
                                         "bits8",
                                         "bits16",
                                         "uint1",
                                         "uint2",
                                         "uint3",
                                         "uint4",
                                         "uint5",
                                         "uint6",
                                         "uint7",
                                         "int1",
                                         "int2",
                                         "int3",
                                         "int4",
                                         "int5",
                                         "int6",
                                         "int7"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

/// numpy classes that stand for an element type: numpy.float32, numpy.dtypes.Float32DType.
bool is_numpy_type(std::string_view module, std::string_view name) {
  if (module == "numpy.dtypes") return name.ends_with("DType");
  if (module != "numpy") return false;
  constexpr std::string_view kNames[] = {
      "bool_",     "bool",       "int8",   "int16",    "int32",    "int64",      "uint8",
      "uint16",    "uint32",     "uint64", "float16",  "float32",  "float64",    "longdouble",
      "complex64", "complex128", "str_",   "bytes_",   "object_",  "datetime64", "timedelta64",
      "void",      "intc",       "uintc",  "longlong", "ulonglong"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

GlobalRole role_in(std::span<const Row> rows, std::string_view module, std::string_view name) {
  for (const Row& row : rows)
    if (row.name == name && row.module == module) return row.role;
  return kRefused;
}

}  // namespace

std::string_view canonical_module(std::string_view module) {
  if (module == "__builtin__") return "builtins";
  if (module == "copy_reg") return "copyreg";
  if (module == "numpy._core.multiarray") return "numpy.core.multiarray";
  if (module == "numpy._core.numeric") return "numpy.core.numeric";
  if (module == "pathlib._local") return "pathlib";
  return module;
}

GlobalMeaning meaning_of_global(std::string_view module, std::string_view name) {
  module = canonical_module(module);
  if (module == "torch" || module == "torch.storage" || module == "torch.cuda") {
    if (is_unsupported_dtype(name)) return {kUnsupportedDType, {}};
    if (const auto dtype = dtype_of_storage(name)) return {kTypedStorage, dtype};
  }
  if (module == "torch") {
    if (const auto dtype = dtype_from_torch_name(name)) return {kDType, dtype};
  }
  if (is_dtensor_module(module)) {
    const GlobalRole role = role_in(kDTensorRows, "", name);
    if (role != kRefused) return {role, {}};
  }
  if (is_numpy_type(module, name)) return {kOpaque, {}};
  return {role_in(kRows, module, name), {}};
}

bool is_allowed_global(std::string_view module, std::string_view name) {
  return meaning_of_global(module, name).role != kRefused;
}

bool is_allowed_attribute(GlobalRole role, std::string_view class_name,
                          std::string_view attribute) {
  if (role == kShardedTensor) return attribute == "ProcessGroupState";
  if (role == kReduceOpClass) return attribute == "RedOpType";
  return class_name == "MEM_FORMAT_ENCODING" && attribute.starts_with("TORCH_");
}

}  // namespace shardkit
