#include "shardkit/torch_pt/dtensor_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "shardkit/base/hash.h"
#include "shardkit/layout/implied_shard_order.h"
#include "shardkit/torch_pt/sharding_hash_internal.h"

namespace shardkit {
namespace {

using pickle::Kind;

/// Different meshes in one file; real ones have a handful.
constexpr std::size_t kMaxMeshes = 4096;

std::size_t hash_of(const DeviceMesh& mesh) {
  Hash hash;
  hash.mix(static_cast<std::int64_t>(std::hash<std::string>()(mesh.device_type())));
  hash.mix_all(mesh.shape());
  hash.mix_all(mesh.ranks());
  return hash.value();
}

bool are_equal(const Sharding& a, const Sharding& b) {
  return a.mesh == b.mesh && a.shape == b.shape && a.placements == b.placements &&
         a.shard_order == b.shard_order;
}

std::size_t content_bytes(const Sharding& sharding) {
  std::size_t bytes =
      sharding.placements.size() * sizeof(Placement) + sharding.shape.size() * sizeof(std::int64_t);
  for (const ShardOrder& entry : sharding.shard_order)
    bytes += sizeof(ShardOrder) + entry.mesh_dims.size() * sizeof(std::int64_t);
  return bytes;
}

}  // namespace

Result<DTensorParts> DTensorReader::read(const Dims& size, ObjectId state) {
  SHARDKIT_ASSIGN(const PtAttributes attributes,
                  objects_.attributes_of_state(state, "a DTensor's state"));
  const auto local = attributes.find("_local_tensor");
  const auto spec = attributes.find("_spec");
  if (!local || !spec)
    return objects_.unexpected("a DTensor's state", "_local_tensor and _spec", state);
  SHARDKIT_ASSIGN(auto sharding, sharding_of(*spec, size));
  return DTensorParts{*local, std::move(sharding)};
}

Result<std::shared_ptr<const Sharding>> DTensorReader::sharding_of(ObjectId spec,
                                                                   const Dims& size) {
  if (!objects_.is_a(spec, GlobalRole::kDTensorSpec))
    return objects_.unexpected("a DTensor's spec", "a DTensorSpec", spec);
  SHARDKIT_ASSIGN(const PtAttributes attributes, objects_.attributes(spec, "a DTensorSpec"));
  const auto mesh = attributes.find("mesh");
  const auto placements = attributes.find("placements");
  if (!mesh || !placements)
    return objects_.error(ErrorCode::kUnsupported, "a DTensorSpec in an unknown form", spec)
        .expected("attributes 'mesh' and 'placements'");
  Sharding sharding;
  SHARDKIT_ASSIGN(sharding.mesh, mesh_of(*mesh));
  SHARDKIT_ASSIGN(sharding.placements, read_placements(*placements));
  sharding.shape = size;

  const auto meta = attributes.find("tensor_meta");
  if (meta && !objects_.is_none(*meta)) {  // a named tuple: shape, stride, dtype
    const auto call = objects_.as_call(*meta);
    if (!call || call->role != GlobalRole::kTensorMeta || call->args.empty())
      return objects_.unexpected("a DTensorSpec's tensor_meta", "a TensorMeta", *meta);
    SHARDKIT_ASSIGN(const Dims shape, objects_.dims(call->args[0], "a DTensor's global shape"));
    if (shape != size)
      return objects_.error(ErrorCode::kCorrupt, "a DTensor has two global shapes", *meta)
          .expected(to_string(size))
          .found(to_string(shape));
  }
  SHARDKIT_TRY(read_shard_order(attributes, sharding));

  const std::size_t hash = hash_of(sharding);
  const auto [begin, end] = shardings_.equal_range(hash);
  const auto equal = std::find_if(
      begin, end, [&sharding](const auto& entry) { return are_equal(*entry.second, sharding); });
  if (equal != end) return equal->second;
  if (auto sound = check_sharding(sharding); !sound.ok())
    return Error(sound.error()).at_offset(objects_.graph().offset(spec));
  SHARDKIT_TRY(objects_.charge(sizeof(Sharding) + content_bytes(sharding), spec));
  return shardings_.emplace(hash, std::make_shared<const Sharding>(std::move(sharding)))->second;
}

Result<std::shared_ptr<const DeviceMesh>> DTensorReader::mesh_of(ObjectId mesh) {
  auto& known = mesh_of_object_[mesh];
  if (known) return known;
  SHARDKIT_ASSIGN(DeviceMesh made, read_mesh(objects_, tensors_, mesh));
  const std::size_t hash = hash_of(made);
  const auto [begin, end] = meshes_.equal_range(hash);
  // Names are labels, but a person looks at them: meshes of other names stay apart.
  const auto equal = std::find_if(begin, end, [&made](const auto& entry) {
    return *entry.second == made && entry.second->dim_names() == made.dim_names();
  });
  if (equal != end) return known = equal->second;
  if (meshes_.size() >= kMaxMeshes)
    return objects_.error(ErrorCode::kLimit, "too many different meshes", mesh)
        .expected(fmt::format("at most {}", kMaxMeshes));
  known = std::make_shared<const DeviceMesh>(std::move(made));
  meshes_.emplace(hash, known);
  return known;
}

Result<std::vector<Placement>> DTensorReader::read_placements(ObjectId placements) const {
  SHARDKIT_ASSIGN(const auto items, objects_.sequence(placements, "a DTensor's placements"));
  std::vector<Placement> read;
  for (const ObjectId item : items) {
    SHARDKIT_ASSIGN(const Placement placement, read_placement(item));
    read.push_back(placement);
  }
  return read;
}

/// Placements keep their numbers as attributes (an instance and its state) in every version so far;
/// as constructor arguments they would mean the same.
Result<Placement> DTensorReader::read_placement(ObjectId id) const {
  const auto call = objects_.as_call(id);
  const GlobalRole role = call ? call->role : GlobalRole::kRefused;
  if (role == GlobalRole::kUnsupportedPlacement)
    return objects_.error(ErrorCode::kUnsupported, "a placement that is not supported", id)
        .found(objects_.full_name(call->callee));
  constexpr std::string_view kNone[] = {{}};
  constexpr std::string_view kShardNames[] = {"dim", "split_factor"};
  constexpr std::string_view kPartialNames[] = {"reduce_op"};
  std::span<const std::string_view> names;
  switch (role) {
    case GlobalRole::kShard: names = std::span(kShardNames).first(1); break;
    case GlobalRole::kStridedShard: names = kShardNames; break;
    case GlobalRole::kReplicate: names = std::span(kNone).first(0); break;
    case GlobalRole::kPartial: names = kPartialNames; break;
    default: return objects_.unexpected("a placement", "Shard, Replicate or Partial", id);
  }
  SHARDKIT_ASSIGN(const PtAttributes attributes, objects_.attributes(id, "a placement"));
  // An attribute of a later PyTorch could change what the placement means; private ones are caches.
  for (const auto& [name, value] : attributes.all())
    if (std::find(names.begin(), names.end(), name) == names.end() && !name.starts_with('_'))
      return objects_.error(ErrorCode::kUnsupported, "a placement with an unknown attribute", id)
          .found(fmt::format("'{}' of {}", name, objects_.full_name(call->callee)));
  if (call->args.size() > names.size())
    return objects_.error(ErrorCode::kUnsupported, "a placement with unknown arguments", id)
        .expected(fmt::format("at most {}", names.size()))
        .found(fmt::format("{} for {}", call->args.size(), objects_.full_name(call->callee)));
  const auto part = [&](std::size_t i) -> std::optional<ObjectId> {
    const auto named = attributes.find(names[i]);
    if (named) return named;
    return i < call->args.size() ? std::optional(call->args[i]) : std::nullopt;
  };
  if (role == GlobalRole::kReplicate) return Placement(Replicate{});
  if (role == GlobalRole::kPartial) {
    const auto op = part(0);
    if (!op) return Placement(Partial{ReduceOp::kSum});
    SHARDKIT_ASSIGN(const ReduceOp reduce_op, read_reduce_op(*op));
    return Placement(Partial{reduce_op});
  }
  const auto dim = part(0);
  if (!dim) return objects_.unexpected("a placement", "an attribute 'dim'", id);
  SHARDKIT_ASSIGN(const std::int64_t tensor_dim, objects_.integer(*dim, "a placement's dim"));
  if (role == GlobalRole::kShard) return Placement(Shard{tensor_dim});
  const auto factor = part(1);
  if (!factor) return objects_.unexpected("a placement", "an attribute 'split_factor'", id);
  SHARDKIT_ASSIGN(const std::int64_t split_factor,
                  objects_.integer(*factor, "a placement's split_factor"));
  return Placement(StridedShard{tensor_dim, split_factor});
}

/// "sum", or the enum ReduceOp.RedOpType that older versions stored: its state is a number.
Result<ReduceOp> DTensorReader::read_reduce_op(ObjectId id) const {
  const pickle::Graph& graph = objects_.graph();
  if (graph.kind(id) == Kind::kString) {
    if (const auto op = reduce_op_from_name(graph.text(id))) return *op;
    return objects_.error(ErrorCode::kUnsupported, "a Partial with an unknown reduce_op", id)
        .found(graph.text(id));
  }
  if (graph.kind(id) != Kind::kNew) return objects_.unexpected("a reduce_op", "a str or enum", id);
  const pickle::Construction& made = graph.construction(id);
  const auto getattr = objects_.as_call(made.callee);
  const bool nested = getattr && getattr->role == GlobalRole::kGetattr &&
                      objects_.meaning(getattr->args[0]).role == GlobalRole::kReduceOpClass;
  if (made.state == pickle::kNoObject ||
      (!nested && objects_.meaning(made.callee).role != GlobalRole::kReduceOpClass))
    return objects_.unexpected("a reduce_op", "a RedOpType with its number", id);
  SHARDKIT_ASSIGN(const std::int64_t number, objects_.integer(made.state, "a RedOpType"));
  // c10d, torch/csrc/distributed/c10d/Types.hpp
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kProduct, ReduceOp::kMin,
                               ReduceOp::kMax};
  if (number < 0 || number >= static_cast<std::int64_t>(std::size(kOps)))
    return objects_.error(ErrorCode::kUnsupported, "a Partial with an unknown reduce_op", id)
        .found(std::to_string(number));
  return kOps[number];
}

/// Since 2.10 a spec states the order in which mesh dimensions cut a tensor dimension. Where
/// _StridedShard placements carry the order themselves, 2.10 states it once more, and newer ones
/// have None and use_strided_shard_as_shard_order.
Status DTensorReader::read_shard_order(const PtAttributes& spec, Sharding& sharding) const {
  const auto order = spec.find("shard_order");
  if (!order || objects_.is_none(*order)) return {};
  const auto flag = spec.find("use_strided_shard_as_shard_order");
  if (flag && objects_.graph().kind(*flag) == Kind::kBool && objects_.graph().boolean(*flag))
    return objects_.error(
        ErrorCode::kCorrupt,
        "a DTensorSpec states its shard order twice, beside and in its placements", *order);
  SHARDKIT_ASSIGN(const auto entries, objects_.sequence(*order, "a spec's shard_order"));
  SHARDKIT_TRY(objects_.charge(entries.size() * sizeof(ShardOrder), *order));
  std::vector<ShardOrder> read;
  for (const ObjectId entry : entries) {
    // A named tuple ShardOrderEntry(tensor_dim, mesh_dims), or a plain pair.
    const auto call = objects_.as_call(entry);
    std::span<const ObjectId> parts;
    if (call && call->role == GlobalRole::kShardOrderEntry) {
      parts = call->args;
    } else {
      SHARDKIT_ASSIGN(parts, objects_.sequence(entry, "a shard_order's entry"));
    }
    if (parts.size() != 2)
      return objects_.unexpected("a shard_order's entry", "tensor_dim and mesh_dims", entry);
    ShardOrder made;
    SHARDKIT_ASSIGN(made.tensor_dim, objects_.integer(parts[0], "a shard_order's tensor_dim"));
    SHARDKIT_ASSIGN(made.mesh_dims, objects_.integers(parts[1], "a shard_order's mesh_dims"));
    SHARDKIT_TRY(objects_.charge(made.mesh_dims.size() * sizeof(std::int64_t), parts[1]));
    read.push_back(std::move(made));
  }
  if (read != implied_shard_order(sharding, SplitFactors::kNoOrder) &&
      read != implied_shard_order(sharding, SplitFactors::kOrder))
    sharding.shard_order = std::move(read);
  return {};
}

}  // namespace shardkit
