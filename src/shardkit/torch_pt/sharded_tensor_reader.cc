#include "shardkit/torch_pt/sharded_tensor_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "shardkit/base/checked_math.h"
#include "shardkit/layout/tiling.h"

namespace shardkit {
namespace {

using pickle::Kind;

/// Look-ups of local shards among all that one tensor may cost. A thousand ranks need a thousand.
constexpr std::size_t kMaxLookups = 10'000'000;

Result<ObjectId> required(PtObjects& objects, const PtAttributes& attributes, std::string_view name,
                          ObjectId at) {
  if (const auto found = attributes.find(name)) return *found;
  return objects.error(ErrorCode::kCorrupt,
                       fmt::format("a part of a ShardedTensor has no attribute '{}'", name), at);
}

/// The rank in "rank:3/cuda:0"; -1 if the text names none (a worker's name, a plain device).
std::int64_t rank_of_device(std::string_view text) {
  constexpr std::string_view kPrefix = "rank:";
  if (!text.starts_with(kPrefix)) return -1;
  text.remove_prefix(kPrefix.size());
  text = text.substr(0, text.find('/'));
  std::int64_t rank = -1;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), rank);
  return fault == std::errc() && end == text.data() + text.size() ? rank : -1;
}

/// torch/distributed/remote_device.py: an instance with _rank, or its constructor's text.
Result<std::int64_t> read_rank(PtObjects& objects, ObjectId placement) {
  if (objects.is_none(placement)) return -1;
  if (objects.graph().kind(placement) == Kind::kString)
    return rank_of_device(objects.graph().text(placement));
  if (!objects.is_a(placement, GlobalRole::kRemoteDevice))
    return objects.unexpected("a shard's placement", "a remote device", placement);
  SHARDKIT_ASSIGN(const auto attributes, objects.attributes(placement, "a remote device"));
  if (const auto rank = attributes.find("_rank")) {
    if (objects.is_none(*rank)) return -1;
    return objects.integer(*rank, "a remote device's rank");
  }
  const auto call = objects.as_call(placement);
  if (call->args.size() != 1 || objects.graph().kind(call->args[0]) != Kind::kString) return -1;
  return rank_of_device(objects.graph().text(call->args[0]));
}

std::string place_text(const Box& box) {
  return fmt::format("offset {}, size {}", to_string(box.offset), to_string(box.shape));
}

Result<ShardMetadata> read_shard_metadata(PtObjects& objects, ObjectId id, const Dims& shape) {
  if (!objects.is_a(id, GlobalRole::kShardMetadata))
    return objects.unexpected("a shard's metadata", "a ShardMetadata", id);
  SHARDKIT_ASSIGN(const auto attributes, objects.attributes(id, "a shard's metadata"));
  SHARDKIT_ASSIGN(const ObjectId offsets, required(objects, attributes, "shard_offsets", id));
  SHARDKIT_ASSIGN(const ObjectId sizes, required(objects, attributes, "shard_sizes", id));
  SHARDKIT_ASSIGN(const ObjectId placement, required(objects, attributes, "placement", id));
  ShardMetadata metadata;
  SHARDKIT_ASSIGN(metadata.box.offset, objects.dims(offsets, "a shard's offsets"));
  SHARDKIT_ASSIGN(metadata.box.shape, objects.dims(sizes, "a shard's sizes"));
  SHARDKIT_ASSIGN(metadata.rank, read_rank(objects, placement));

  const Box& box = metadata.box;
  const auto bad = [&] {
    return objects.error(ErrorCode::kCorrupt, "a shard that does not lie in its tensor", id)
        .expected(fmt::format("inside shape {}", to_string(shape)))
        .found(place_text(box));
  };
  if (box.offset.size() != shape.size() || box.shape.size() != shape.size()) return bad();
  const auto count = element_count(box.shape);
  if (!count) return bad();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (box.offset[d] < 0) return bad();
    const auto end = checked_add(box.offset[d], box.shape[d]);
    if (*count > 0 && (!end || *end > shape[d])) return bad();
  }
  return metadata;
}

Status check_disjoint(PtObjects& objects, const std::vector<ShardMetadata>& shards, ObjectId at) {
  std::vector<Box> boxes;
  for (const ShardMetadata& shard : shards)
    if (!shard.box.empty()) boxes.push_back(shard.box);
  const auto overlap = find_overlap(std::move(boxes));
  if (!overlap.ok()) return Error(overlap.error()).at_offset(objects.graph().offset(at));
  if (!*overlap) return {};
  const auto& [first, second] = **overlap;
  return objects.error(ErrorCode::kCorrupt, "two shards of a ShardedTensor overlap", at)
      .found(fmt::format("{} and {}", to_string(first), to_string(second)));
}

/// TensorProperties pickles as the tuple (dtype, layout, requires_grad, memory format, pinned).
Result<DType> read_dtype(PtObjects& objects, ObjectId properties) {
  if (!objects.is_a(properties, GlobalRole::kTensorProperties))
    return objects.unexpected("a ShardedTensor's properties", "TensorProperties", properties);
  const ObjectId state = objects.graph().construction(properties).state;
  if (state == pickle::kNoObject)
    return objects.unexpected("a ShardedTensor's properties", "a state", properties);
  ObjectId dtype = pickle::kNoObject;
  std::optional<ObjectId> layout;
  if (objects.graph().kind(state) == Kind::kTuple) {
    const auto parts = objects.graph().items(state);
    if (parts.size() != 5)
      return objects.unexpected("a ShardedTensor's properties", "5 parts", state);
    dtype = parts[0];
    layout = parts[1];
  } else {
    SHARDKIT_ASSIGN(const auto attributes,
                    objects.attributes_of_state(state, "a ShardedTensor's properties"));
    SHARDKIT_ASSIGN(dtype, required(objects, attributes, "dtype", state));
    layout = attributes.find("layout");
  }
  if (layout) {  // torch.serialization._get_layout('torch.strided')
    const auto call = objects.as_call(*layout);
    if (call && call->args.size() == 1 && objects.graph().kind(call->args[0]) == Kind::kString &&
        objects.graph().text(call->args[0]) != "torch.strided")
      return objects.error(ErrorCode::kUnsupported, "a ShardedTensor that is not strided", *layout)
          .found(objects.graph().text(call->args[0]));
  }
  return objects.dtype(dtype);
}

/// The shards of an inner ShardedTensor, moved to their place in the outer one.
Status add_nested(PtObjects& objects, const ShardMetadata& outer, ShardedTensor inner, ObjectId at,
                  ShardedTensor& tensor) {
  if (inner.shape != outer.box.shape || inner.dtype != tensor.dtype)
    return objects
        .error(ErrorCode::kCorrupt, "a nested ShardedTensor is not the shard it fills", at)
        .expected(fmt::format("{} of {}", to_string(outer.box.shape), torch_name(tensor.dtype)))
        .found(fmt::format("{} of {}", to_string(inner.shape), torch_name(inner.dtype)));
  for (ShardedTensor::LocalShard& shard : inner.local_shards) {
    Dims& offset = shard.metadata.box.offset;
    for (std::size_t d = 0; d < offset.size(); ++d) {
      const auto moved = checked_add(offset[d], outer.box.offset[d]);
      if (!moved) return objects.error(ErrorCode::kCorrupt, "a shard's offset overflows", at);
      offset[d] = *moved;
    }
    tensor.local_shards.push_back(std::move(shard));
  }
  return {};
}

}  // namespace

Result<ShardedTensor> read_sharded_tensor(
    PtObjects& objects, ObjectId state, const std::function<Result<Value>(ObjectId)>& read_value) {
  SHARDKIT_ASSIGN(const auto parts, objects.sequence(state, "a ShardedTensor's state"));
  if (parts.size() != 5) return objects.unexpected("a ShardedTensor's state", "5 parts", state);

  if (!objects.is_a(parts[1], GlobalRole::kShardedTensorMetadata))
    return objects.unexpected("a ShardedTensor's metadata", "ShardedTensorMetadata", parts[1]);
  SHARDKIT_ASSIGN(const auto metadata, objects.attributes(parts[1], "a ShardedTensor's metadata"));
  SHARDKIT_ASSIGN(const ObjectId size, required(objects, metadata, "size", parts[1]));
  SHARDKIT_ASSIGN(const ObjectId listed, required(objects, metadata, "shards_metadata", parts[1]));
  SHARDKIT_ASSIGN(const ObjectId properties,
                  required(objects, metadata, "tensor_properties", parts[1]));

  ShardedTensor tensor;
  SHARDKIT_ASSIGN(tensor.shape, objects.dims(size, "a ShardedTensor's size"));
  const auto count = element_count(tensor.shape);
  if (!count || !checked_mul(*count, std::int64_t{16}))
    return objects.error(ErrorCode::kCorrupt, "a ShardedTensor's size overflows", size)
        .found(to_string(tensor.shape));
  SHARDKIT_ASSIGN(tensor.dtype, read_dtype(objects, properties));
  SHARDKIT_ASSIGN(const auto shards, objects.sequence(listed, "a ShardedTensor's shards"));
  SHARDKIT_TRY(objects.charge(sizeof(ShardMetadata) * shards.size(), listed));
  for (const ObjectId shard : shards) {
    SHARDKIT_ASSIGN(auto read, read_shard_metadata(objects, shard, tensor.shape));
    tensor.shards.push_back(std::move(read));
  }
  SHARDKIT_TRY(check_disjoint(objects, tensor.shards, listed));

  bool nested = false;
  SHARDKIT_ASSIGN(const auto local, objects.sequence(parts[0], "a ShardedTensor's local shards"));
  if (!local.empty() && tensor.shards.size() > kMaxLookups / local.size())
    return objects.error(ErrorCode::kLimit, "a ShardedTensor of too many shards", parts[0])
        .found(fmt::format("{} local ones of {}", local.size(), tensor.shards.size()));
  for (const ObjectId shard : local) {
    if (!objects.is_a(shard, GlobalRole::kLocalShard))
      return objects.unexpected("a local shard", "a Shard", shard);
    SHARDKIT_ASSIGN(const auto attributes, objects.attributes(shard, "a local shard"));
    SHARDKIT_ASSIGN(const ObjectId data, required(objects, attributes, "tensor", shard));
    SHARDKIT_ASSIGN(const ObjectId where, required(objects, attributes, "metadata", shard));
    SHARDKIT_ASSIGN(ShardMetadata read, read_shard_metadata(objects, where, tensor.shape));
    // Only the boxes count: FSDP1 over tensor parallelism lists its shards under other ranks
    // (torch 2.13, tensor/parallel/fsdp.py, _create_sharded_tensor_md_from_dt).
    const bool is_listed =
        std::any_of(tensor.shards.begin(), tensor.shards.end(),
                    [&read](const ShardMetadata& other) { return other.box == read.box; });
    if (!is_listed)
      return objects
          .error(ErrorCode::kCorrupt, "a local shard that the metadata does not list", where)
          .found(place_text(read.box));
    SHARDKIT_TRY(objects.charge(sizeof(ShardedTensor::LocalShard), shard));
    SHARDKIT_ASSIGN(Value value, read_value(data));
    if (auto* inner = value.get_if<ShardedTensor>()) {
      nested = true;
      SHARDKIT_TRY(add_nested(objects, read, std::move(*inner), data, tensor));
      continue;
    }
    auto* plain = value.get_if<Tensor>();
    if (!plain) return objects.unexpected("a local shard's data", "a tensor", data);
    if (plain->shape != read.box.shape || plain->dtype != tensor.dtype)
      return objects.error(ErrorCode::kCorrupt, "a local shard is not what its metadata says", data)
          .expected(fmt::format("{} of {}", to_string(read.box.shape), torch_name(tensor.dtype)))
          .found(fmt::format("{} of {}", to_string(plain->shape), torch_name(plain->dtype)));
    tensor.local_shards.push_back({std::move(read), std::move(*plain)});
  }
  if (nested) tensor.shards.clear();
  return tensor;
}

}  // namespace shardkit
