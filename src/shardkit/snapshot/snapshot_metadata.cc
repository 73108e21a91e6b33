// A snapshot's metadata to JSON and back.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <unordered_map>

#include "shardkit/json/parse.h"
#include "shardkit/json/value.h"
#include "shardkit/json/write.h"
#include "shardkit/snapshot/snapshot_metadata_internal.h"

namespace shardkit::internal {
namespace {

constexpr std::int64_t kVersion = 1;

using Mesh = std::shared_ptr<const DeviceMesh>;
using Spec = std::shared_ptr<const Sharding>;

Error corrupt(std::string_view what) {
  return Error(ErrorCode::kCorrupt, fmt::format("the snapshot's metadata is damaged: {}", what));
}

template <class Numbers>
json::Value numbers_to_json(const Numbers& numbers) {
  json::Array array;
  for (const std::int64_t number : numbers) array.items.emplace_back(number);
  return array;
}

struct PlacementToJson {
  json::Value operator()(const Shard& p) const { return json::Array{{"S", p.dim}}; }
  json::Value operator()(const StridedShard& p) const {
    return json::Array{{"_S", p.dim, p.split_factor}};
  }
  json::Value operator()(const Replicate&) const { return json::Array{{"R"}}; }
  json::Value operator()(const Partial& p) const { return json::Array{{"P", to_string(p.op)}}; }
};

json::Value mesh_to_json(const DeviceMesh& mesh) {
  json::Object object;
  object.add("device_type", mesh.device_type());
  object.add("shape", numbers_to_json(mesh.shape()));
  object.add("ranks", numbers_to_json(mesh.ranks()));
  json::Array names;
  for (const std::string& name : mesh.dim_names()) names.items.emplace_back(name);
  object.add("dim_names", std::move(names));
  return object;
}

json::Value spec_to_json(const Sharding& spec, std::size_t mesh) {
  json::Object object;
  object.add("mesh", mesh);
  json::Array placements;
  for (const Placement& placement : spec.placements)
    placements.items.push_back(std::visit(PlacementToJson(), placement));
  object.add("placements", std::move(placements));
  object.add("shape", numbers_to_json(spec.shape));
  json::Array order;
  for (const ShardOrder& entry : spec.shard_order)
    order.items.emplace_back(json::Array{{entry.tensor_dim, numbers_to_json(entry.mesh_dims)}});
  object.add("shard_order", std::move(order));
  return object;
}

// The readers return nothing where a value is not of the kind that they want.

template <class T>
const T* get(const json::Value* value) {
  return value ? value->get_if<T>() : nullptr;
}

std::optional<std::int64_t> get_int(const json::Value* value) {
  return value ? value->as_int64() : std::nullopt;
}

std::optional<std::vector<std::int64_t>> get_ints(const json::Value* value) {
  const auto* array = get<json::Array>(value);
  if (!array) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const json::Value& item : array->items) {
    const auto number = item.as_int64();
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<Dims> get_dims(const json::Value* value) {
  const auto numbers = get_ints(value);
  if (!numbers || numbers->size() > Dims::kMaxDims) return std::nullopt;
  return Dims(std::span(*numbers));
}

/// The entry of a list that a number names.
template <class T>
const T* at(const std::vector<T>& list, std::optional<std::int64_t> index) {
  if (!index || *index < 0 || static_cast<std::uint64_t>(*index) >= list.size()) return nullptr;
  return &list[static_cast<std::size_t>(*index)];
}

std::optional<Placement> placement_from_json(const json::Value& value) {
  const auto* array = value.get_if<json::Array>();
  if (!array || array->items.empty()) return std::nullopt;
  const auto& items = array->items;
  const auto* kind = items[0].get_if<std::string>();
  if (!kind) return std::nullopt;
  if (*kind == "R" && items.size() == 1) return Replicate();
  if (*kind == "S" && items.size() == 2)
    if (const auto dim = items[1].as_int64()) return Shard{*dim};
  if (*kind == "_S" && items.size() == 3)
    if (const auto dim = items[1].as_int64())
      if (const auto factor = items[2].as_int64()) return StridedShard{*dim, *factor};
  if (*kind == "P" && items.size() == 2)
    if (const auto* name = items[1].get_if<std::string>())
      if (const auto op = reduce_op_from_name(*name)) return Partial{*op};
  return std::nullopt;
}

Result<Mesh> mesh_from_json(const json::Value& value) {
  const auto* device = get<std::string>(value.find("device_type"));
  auto shape = get_dims(value.find("shape"));
  auto ranks = get_ints(value.find("ranks"));
  const auto* names = get<json::Array>(value.find("dim_names"));
  if (!device || !shape || !ranks || !names) return corrupt("no mesh");
  std::vector<std::string> dim_names;
  for (const json::Value& name : names->items) {
    if (!name.get_if<std::string>()) return corrupt("no mesh");
    dim_names.push_back(*name.get_if<std::string>());
  }
  SHARDKIT_ASSIGN(DeviceMesh mesh, DeviceMesh::make(*device, *std::move(shape), *std::move(ranks),
                                                    std::move(dim_names)));
  return std::make_shared<const DeviceMesh>(std::move(mesh));
}

Result<Spec> spec_from_json(const json::Value& value, const std::vector<Mesh>& meshes) {
  const Mesh* mesh = at(meshes, get_int(value.find("mesh")));
  const auto* placements = get<json::Array>(value.find("placements"));
  auto shape = get_dims(value.find("shape"));
  const auto* order = get<json::Array>(value.find("shard_order"));
  if (!mesh || !placements || !shape || !order) return corrupt("no spec");
  Sharding spec;
  spec.mesh = *mesh;
  spec.shape = *std::move(shape);
  for (const json::Value& item : placements->items) {
    const auto placement = placement_from_json(item);
    if (!placement) return corrupt("no placement");
    spec.placements.push_back(*placement);
  }
  for (const json::Value& item : order->items) {
    const auto* pair = item.get_if<json::Array>();
    if (!pair || pair->items.size() != 2) return corrupt("no order of sharding");
    const auto dim = pair->items[0].as_int64();
    auto mesh_dims = get_ints(&pair->items[1]);
    if (!dim || !mesh_dims) return corrupt("no order of sharding");
    spec.shard_order.push_back({*dim, *std::move(mesh_dims)});
  }
  SHARDKIT_TRY(check_sharding(spec));
  return std::make_shared<const Sharding>(std::move(spec));
}

template <class T, class FromJson>
Result<std::vector<T>> list_from_json(const json::Value& document, std::string_view name,
                                      const FromJson& from_json) {
  const auto* array = get<json::Array>(document.find(name));
  if (!array) return corrupt(fmt::format("no list \"{}\"", name));
  std::vector<T> list;
  for (const json::Value& item : array->items) {
    SHARDKIT_ASSIGN(T made, from_json(item));
    list.push_back(std::move(made));
  }
  return list;
}

}  // namespace

Result<std::string> to_json(const SnapshotMetadata& metadata) {
  json::Array meshes;
  json::Array specs;
  json::Array tensors;
  std::unordered_map<const DeviceMesh*, std::size_t> mesh_places;
  std::unordered_map<const Sharding*, std::size_t> spec_places;
  for (const auto& [name, spec] : metadata.tensors) {
    json::Value place;
    if (spec) {
      const auto [mesh, new_mesh] = mesh_places.emplace(spec->mesh.get(), meshes.items.size());
      if (new_mesh) meshes.items.push_back(mesh_to_json(*spec->mesh));
      const auto [known, new_spec] = spec_places.emplace(spec.get(), specs.items.size());
      if (new_spec) specs.items.push_back(spec_to_json(*spec, mesh->second));
      place = known->second;
    }
    tensors.items.emplace_back(json::Array{{name, std::move(place)}});
  }
  json::Object document;
  document.add("version", kVersion);
  document.add("save", metadata.save_id);
  document.add("world_size", metadata.world_size);
  document.add("rank", metadata.rank);
  document.add("meshes", std::move(meshes));
  document.add("specs", std::move(specs));
  document.add("tensors", std::move(tensors));
  std::string text = json::write(document, json::WriteStyle::kCompact);
  if (const std::size_t limit = json::ParseLimits().bytes; text.size() > limit)
    return Error(ErrorCode::kLimit, "the names and specs of a snapshot are too long")
        .expected(fmt::format("at most {} bytes", limit))
        .found(std::to_string(text.size()));
  return text;
}

Result<SnapshotMetadata> metadata_from_json(std::string_view text) {
  SHARDKIT_ASSIGN(const json::Value document, json::parse(text));
  const auto version = get_int(document.find("version"));
  if (!version) return corrupt("no version");
  if (*version != kVersion)
    return Error(ErrorCode::kUnsupported, "a snapshot of another version of the form")
        .expected(std::to_string(kVersion))
        .found(std::to_string(*version));
  const auto* save = get<std::string>(document.find("save"));
  const auto world_size = get_int(document.find("world_size"));
  const auto rank = get_int(document.find("rank"));
  if (!save || !world_size || *world_size < 1 || *world_size > INT32_MAX || !rank || *rank < 0 ||
      *rank >= *world_size)
    return corrupt("no save, world_size or rank");
  SnapshotMetadata metadata;
  metadata.save_id = *save;
  metadata.world_size = static_cast<int>(*world_size);
  metadata.rank = static_cast<int>(*rank);
  SHARDKIT_ASSIGN(const auto meshes, list_from_json<Mesh>(document, "meshes", mesh_from_json));
  SHARDKIT_ASSIGN(const auto specs,
                  list_from_json<Spec>(document, "specs", [&](const json::Value& item) {
                    return spec_from_json(item, meshes);
                  }));
  using Named = std::pair<std::string, Spec>;
  const auto named_from_json = [&](const json::Value& item) -> Result<Named> {
    const auto* pair = item.get_if<json::Array>();
    if (!pair || pair->items.size() != 2) return corrupt("no pair of name and spec");
    const auto* name = pair->items[0].get_if<std::string>();
    const Spec* spec = at(specs, pair->items[1].as_int64());
    if (!name || (!spec && !pair->items[1].is_null())) return corrupt("no pair of name and spec");
    return Named(*name, spec ? *spec : nullptr);
  };
  SHARDKIT_ASSIGN(metadata.tensors, list_from_json<Named>(document, "tensors", named_from_json));
  return metadata;
}

}  // namespace shardkit::internal
