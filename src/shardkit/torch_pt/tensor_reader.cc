#include "shardkit/torch_pt/tensor_reader.h"

#include <fmt/format.h>

#include <cstring>

#include "shardkit/base/checked_math.h"

namespace shardkit {
namespace {

using pickle::Kind;

template <class T>
std::int64_t load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return static_cast<std::int64_t>(value);
}

std::int64_t load_integer(DType dtype, const char* at) {
  switch (dtype) {
    case DType::kInt64: return load<std::int64_t>(at);
    case DType::kInt32: return load<std::int32_t>(at);
    case DType::kInt16: return load<std::int16_t>(at);
    case DType::kInt8: return load<std::int8_t>(at);
    case DType::kUInt32: return load<std::uint32_t>(at);
    case DType::kUInt16: return load<std::uint16_t>(at);
    default: return load<std::uint8_t>(at);
  }
}

}  // namespace

bool TensorReader::is_rebuild(GlobalRole role) {
  return role == GlobalRole::kRebuildTensor || role == GlobalRole::kRebuildTensorV2 ||
         role == GlobalRole::kRebuildTensorV3 || role == GlobalRole::kRebuildMetaTensor;
}

Result<TensorReader::TypedStorage> TensorReader::storage_of(ObjectId id) {
  const pickle::Graph& graph = objects_.graph();
  if (graph.kind(id) != Kind::kPersistentId)
    return objects_.unexpected("a tensor's storage", "a persistent id", id);
  const ObjectId pid = graph.persistent_id(id);
  SHARDKIT_ASSIGN(const auto parts, objects_.sequence(pid, "a persistent id"));
  // ("storage", class, key, location, count); files of the old form add view metadata, always None.
  if (parts.size() != 5 && !(parts.size() == 6 && objects_.is_none(parts[5])))
    return objects_.unexpected("a persistent id", "5 parts", pid);
  SHARDKIT_ASSIGN(const auto tag, objects_.string(parts[0], "a persistent id's tag"));
  if (tag != "storage")
    return objects_.error(ErrorCode::kUnsupported, "a persistent id that is no storage", pid)
        .found(tag);
  const GlobalMeaning type = objects_.meaning(parts[1]);
  TypedStorage made;
  if (type.role == GlobalRole::kTypedStorage) {
    made.dtype = *type.dtype;
  } else if (type.role == GlobalRole::kUnsupportedDType) {
    return objects_
        .error(ErrorCode::kUnsupported, "an element type that is not supported", parts[1])
        .found(objects_.full_name(parts[1]));
  } else if (type.role != GlobalRole::kUntypedStorage) {
    return objects_.unexpected("a storage's class", "a class of torch's storages", parts[1]);
  }
  SHARDKIT_ASSIGN(const auto key, objects_.string(parts[2], "a storage's key"));
  SHARDKIT_ASSIGN(const auto location, objects_.string(parts[3], "a storage's location"));
  SHARDKIT_ASSIGN(made.count, objects_.integer(parts[4], "a storage's size"));
  // Where a storage lived does not matter (cpu, cuda:3), but on the meta device it has no bytes.
  if (location == "meta") {
    const auto bytes = checked_mul(made.count, item_bytes(made.dtype));
    if (made.count < 0 || !bytes)
      return objects_.unexpected("a storage's size", "a size that fits 64 bits", parts[4]);
    made.storage = std::make_shared<const Storage>(NoBytes{}, static_cast<std::uint64_t>(*bytes));
    return made;
  }
  auto storage = records_.storage(key, made.count, item_bytes(made.dtype));
  if (!storage.ok()) return std::move(storage).error();
  made.storage = *std::move(storage);
  return made;
}

/// Tensor._conj and ._neg bits: the stored numbers are not yet those of the tensor
/// (torch/_utils.py, set_tensor_metadata).
Status TensorReader::check_metadata(ObjectId metadata) const {
  if (objects_.is_none(metadata)) return {};
  const pickle::Graph& graph = objects_.graph();
  if (graph.kind(metadata) != Kind::kDict)
    return objects_.unexpected("a tensor's metadata", "a dict", metadata);
  const auto items = graph.items(metadata);
  SHARDKIT_TRY(objects_.charge(items.size() * sizeof(ObjectId), metadata));
  for (std::size_t i = 0; i < items.size(); i += 2) {
    SHARDKIT_ASSIGN(const auto name, objects_.string(items[i], "a name in a tensor's metadata"));
    const bool off = graph.kind(items[i + 1]) == Kind::kBool && !graph.boolean(items[i + 1]);
    if (!off)
      return objects_
          .error(ErrorCode::kUnsupported,
                 "a tensor whose data are not its values (resolve_conj, resolve_neg)", metadata)
          .found(fmt::format("metadata '{}'", name));
  }
  return {};
}

Result<Tensor> TensorReader::rebuild(const PtCall& call, ObjectId at) {
  const auto args = call.args;
  const auto check_count = [&](std::size_t least, std::size_t most) -> Status {
    if (args.size() >= least && args.size() <= most) return {};
    return objects_
        .error(ErrorCode::kCorrupt, "a tensor that is rebuilt from too few or too many arguments",
               at)
        .expected(fmt::format("{} to {}", least, most))
        .found(fmt::format("{} for {}", args.size(), objects_.full_name(call.callee)));
  };
  Tensor tensor;
  if (call.role == GlobalRole::kRebuildMetaTensor) {
    SHARDKIT_TRY(check_count(4, 4));
    SHARDKIT_ASSIGN(tensor.dtype, objects_.dtype(args[0]));
    SHARDKIT_ASSIGN(tensor.shape, objects_.dims(args[1], "a tensor's size"));
    SHARDKIT_ASSIGN(tensor.strides, objects_.dims(args[2], "a tensor's stride"));
    // As large as the view needs; its own check finds what is wrong with shape and strides.
    std::optional<std::int64_t> last = 0;
    for (std::size_t d = 0; d < tensor.shape.size() && d < tensor.strides.size(); ++d) {
      const auto step = checked_mul(std::max<std::int64_t>(tensor.shape[d] - 1, 0),
                                    std::max<std::int64_t>(tensor.strides[d], 0));
      last = last && step ? checked_add(*last, *step) : std::nullopt;
    }
    const auto bytes =
        last && *last < INT64_MAX ? checked_mul(*last + 1, item_bytes(tensor.dtype)) : std::nullopt;
    tensor.storage =
        std::make_shared<const Storage>(NoBytes{}, static_cast<std::uint64_t>(bytes.value_or(0)));
  } else {
    const bool v3 = call.role == GlobalRole::kRebuildTensorV3;
    if (call.role == GlobalRole::kRebuildTensor)
      SHARDKIT_TRY(check_count(4, 4));
    else
      SHARDKIT_TRY(v3 ? check_count(7, 8) : check_count(6, 7));
    SHARDKIT_ASSIGN(const TypedStorage storage, storage_of(args[0]));
    tensor.storage = storage.storage;
    tensor.dtype = storage.dtype;
    SHARDKIT_ASSIGN(tensor.offset, objects_.integer(args[1], "a tensor's storage offset"));
    SHARDKIT_ASSIGN(tensor.shape, objects_.dims(args[2], "a tensor's size"));
    SHARDKIT_ASSIGN(tensor.strides, objects_.dims(args[3], "a tensor's stride"));
    if (v3) {
      SHARDKIT_ASSIGN(tensor.dtype, objects_.dtype(args[6]));
    }
    const std::size_t metadata = v3 ? 7 : 6;
    if (args.size() > metadata) SHARDKIT_TRY(check_metadata(args[metadata]));
  }
  if (auto view = check_view(tensor); !view.ok())
    return Error(view.error()).at_offset(objects_.graph().offset(at));
  return tensor;
}

Result<Tensor> TensorReader::bare_storage(ObjectId persistent_id) {
  SHARDKIT_ASSIGN(const TypedStorage storage, storage_of(persistent_id));
  return Tensor{storage.dtype, {storage.count}, {1}, 0, storage.storage};
}

Result<std::vector<std::int64_t>> TensorReader::read_integers(const Tensor& tensor,
                                                              ObjectId at) const {
  if (!is_integer(tensor.dtype) || tensor.dtype == DType::kUInt64)
    return objects_.error(ErrorCode::kCorrupt, "a mesh's ranks are no integers", at)
        .found(torch_name(tensor.dtype));
  if (tensor.storage->is_meta())
    return objects_.error(ErrorCode::kCorrupt, "a mesh's ranks have no data (meta device)", at);
  SHARDKIT_ASSIGN(const std::string bytes, records_.read_storage(*tensor.storage));
  const auto count = static_cast<std::size_t>(tensor.numel());
  // A view may repeat elements (stride 0), so that its size is bounded by nothing in the file.
  if (count > bytes.size())
    return objects_.error(ErrorCode::kCorrupt, "a mesh's ranks repeat (a stride of 0)", at);
  std::vector<std::int64_t> values;
  values.reserve(count);
  Dims index(tensor.shape.size(), 0);
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t element = tensor.offset;
    for (std::size_t d = 0; d < index.size(); ++d) element += index[d] * tensor.strides[d];
    values.push_back(load_integer(tensor.dtype, bytes.data() + element * item_bytes(tensor.dtype)));
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < tensor.shape[d]) break;
      index[d] = 0;
    }
  }
  return values;
}

}  // namespace shardkit
