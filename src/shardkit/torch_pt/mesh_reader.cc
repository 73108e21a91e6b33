#include "shardkit/torch_pt/mesh_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardkit/base/checked_math.h"
#include "shardkit/layout/box.h"

namespace shardkit {
namespace {

using pickle::Kind;

/// One (size, stride) pair; a mesh axis is a list of these, the last varying fastest.
struct Step {
  std::int64_t size = 1;
  std::int64_t stride = 1;
};

using Axis = std::vector<Step>;

/// Flattens a nested pair of int tuples, as PyTorch's layouts have them ((2, 2), (4, 1)), into
/// steps. Form C writes an axis of size 1 as two empty tuples. Each part is charged for, since
/// tuples of one tuple many times over would unfold without end.
Status add_steps(PtObjects& objects, ObjectId shape, ObjectId stride, int depth, Axis& axis) {
  const auto what = "a mesh's layout";
  SHARDKIT_TRY(objects.charge(sizeof(Step), shape));
  if (objects.graph().kind(shape) == Kind::kInt) {
    SHARDKIT_ASSIGN(const std::int64_t size, objects.integer(shape, what));
    SHARDKIT_ASSIGN(const std::int64_t step, objects.integer(stride, what));
    axis.push_back({size, step});
    return {};
  }
  SHARDKIT_ASSIGN(const auto sizes, objects.sequence(shape, what));
  SHARDKIT_ASSIGN(const auto steps, objects.sequence(stride, what));
  if (sizes.size() != steps.size() || depth == 0)
    return objects.unexpected(what, "a shape and strides of one form", shape);
  for (std::size_t i = 0; i < sizes.size(); ++i)
    SHARDKIT_TRY(add_steps(objects, sizes[i], steps[i], depth - 1, axis));
  return {};
}

constexpr int kMaxLayoutDepth = 8;

Result<ObjectId> required(PtObjects& objects, const PtAttributes& attributes, std::string_view name,
                          ObjectId at) {
  if (const auto found = attributes.find(name)) return *found;
  return objects.error(ErrorCode::kUnsupported, "a mesh in an unknown form", at)
      .expected(fmt::format("an attribute '{}'", name));
}

Result<Axis> read_axis(PtObjects& objects, ObjectId shape, ObjectId stride) {
  Axis axis;
  SHARDKIT_TRY(add_steps(objects, shape, stride, kMaxLayoutDepth, axis));
  return axis;
}

Result<std::vector<Axis>> read_layout(PtObjects& objects, ObjectId layout) {
  SHARDKIT_ASSIGN(const PtAttributes attributes, objects.attributes(layout, "a mesh's layout"));
  std::vector<Axis> axes;
  if (const auto listed = attributes.find("axes")) {  // form C
    SHARDKIT_ASSIGN(const auto items, objects.sequence(*listed, "a mesh's axes"));
    for (const ObjectId item : items) {
      SHARDKIT_ASSIGN(const PtAttributes axis, objects.attributes(item, "a mesh's axis"));
      SHARDKIT_ASSIGN(const ObjectId shape, required(objects, axis, "shape", item));
      SHARDKIT_ASSIGN(const ObjectId stride, required(objects, axis, "stride", item));
      SHARDKIT_ASSIGN(Axis steps, read_axis(objects, shape, stride));
      axes.push_back(std::move(steps));
    }
    return axes;
  }
  SHARDKIT_ASSIGN(const ObjectId shape, required(objects, attributes, "shape", layout));
  SHARDKIT_ASSIGN(const ObjectId stride, required(objects, attributes, "stride", layout));
  if (objects.graph().kind(shape) == Kind::kInt) {
    SHARDKIT_ASSIGN(Axis steps, read_axis(objects, shape, stride));
    axes.push_back(std::move(steps));
    return axes;
  }
  SHARDKIT_ASSIGN(const auto shapes, objects.sequence(shape, "a mesh's layout"));
  SHARDKIT_ASSIGN(const auto strides, objects.sequence(stride, "a mesh's layout"));
  if (shapes.size() != strides.size())
    return objects.unexpected("a mesh's layout", "as many strides as sizes", layout);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    SHARDKIT_ASSIGN(Axis steps, read_axis(objects, shapes[i], strides[i]));
    axes.push_back(std::move(steps));
  }
  return axes;
}

struct RankArray {
  Dims shape;
  std::vector<std::int64_t> ranks;  // row-major
};

/// A tensor of ranks, or a sequence of ints.
Result<RankArray> read_ranks(PtObjects& objects, TensorReader& tensors, ObjectId id) {
  const auto call = objects.as_call(id);
  if (call && TensorReader::is_rebuild(call->role)) {
    SHARDKIT_ASSIGN(const Tensor tensor, tensors.rebuild(*call, id));
    if (tensor.numel() > kMaxMeshRanks)
      return objects.error(ErrorCode::kLimit, "a mesh of too many ranks", id)
          .expected(fmt::format("at most {}", kMaxMeshRanks))
          .found(std::to_string(tensor.numel()));
    SHARDKIT_TRY(objects.charge(64 + 64 * static_cast<std::uint64_t>(tensor.numel()), id));
    SHARDKIT_ASSIGN(auto ranks, tensors.read_integers(tensor, id));
    return RankArray{tensor.shape, std::move(ranks)};
  }
  SHARDKIT_ASSIGN(auto ranks, objects.integers(id, "a mesh's ranks"));
  SHARDKIT_TRY(objects.charge(64 + 64 * ranks.size(), id));
  const auto count = static_cast<std::int64_t>(ranks.size());
  return RankArray{Dims{count}, std::move(ranks)};
}

/// Picks the mesh's ranks out of the rank map: the rank at a coordinate is rank_map[first +
/// sum(coordinate * stride)]. Where the map holds several copies of the layout (a sliced mesh),
/// `first` is that of the copy which holds the writing rank
/// (torch 2.13, _mesh_layout.py remap_to_tensor; device_mesh.py _get_mesh_tensor_from_full_mesh).
Result<RankArray> place(PtObjects& objects, const std::vector<Axis>& axes,
                        const std::vector<std::int64_t>& rank_map,
                        std::optional<std::int64_t> own_rank, ObjectId at) {
  const auto bad = [&](std::string what) {
    return objects.error(ErrorCode::kCorrupt, std::move(what), at);
  };
  if (axes.size() > Dims::kMaxDims)
    return objects.error(ErrorCode::kLimit, "a mesh has too many dimensions", at)
        .expected(fmt::format("at most {}", Dims::kMaxDims))
        .found(std::to_string(axes.size()));
  Axis steps;
  Dims shape(axes.size(), 1);
  std::int64_t total = 1;
  for (std::size_t a = 0; a < axes.size(); ++a)
    for (const Step& step : axes[a]) {
      const auto product = step.size < 1 ? std::nullopt : checked_mul(total, step.size);
      if (!product || *product > static_cast<std::int64_t>(rank_map.size()))
        return bad("a mesh's layout has more places than there are ranks");
      total = *product;
      shape[a] *= step.size;
      if (step.size > 1) steps.push_back(step);
    }

  // Orthogonal: each stride is a multiple of what the finer ones span, so that the place in the map
  // tells every coordinate (torch 2.13, check_orthogonal).
  Axis sorted = steps;
  std::sort(sorted.begin(), sorted.end(),
            [](const Step& a, const Step& b) { return a.stride < b.stride; });
  std::int64_t span = 1;
  for (const Step& step : sorted) {
    if (step.stride < 1 || step.stride % span != 0) return bad("a mesh's layout overlaps itself");
    const auto next = checked_mul(step.stride, step.size);
    if (!next) return bad("a mesh's layout leaves its rank map");
    span = *next;
  }

  std::int64_t first = 0;
  if (total != static_cast<std::int64_t>(rank_map.size())) {
    const auto own =
        own_rank ? std::find(rank_map.begin(), rank_map.end(), *own_rank) : rank_map.end();
    if (own == rank_map.end())
      return bad("a sliced mesh does not tell which slice it is")
          .expected("an attribute '_rank' that is in the rank map");
    first = own - rank_map.begin();
    for (const Step& step : sorted)
      first -=
          static_cast<std::int64_t>(own - rank_map.begin()) / step.stride % step.size * step.stride;
  }

  RankArray placed{shape, {}};
  placed.ranks.reserve(static_cast<std::size_t>(total));
  std::vector<std::int64_t> index(steps.size(), 0);
  for (std::int64_t i = 0; i < total; ++i) {
    std::int64_t at_map = first;
    for (std::size_t s = 0; s < steps.size(); ++s) at_map += index[s] * steps[s].stride;
    if (at_map >= static_cast<std::int64_t>(rank_map.size()))
      return bad("a mesh's layout leaves its rank map");
    placed.ranks.push_back(rank_map[static_cast<std::size_t>(at_map)]);
    for (std::size_t s = steps.size(); s-- > 0;) {
      if (++index[s] < steps[s].size) break;
      index[s] = 0;
    }
  }
  return placed;
}

Result<std::vector<std::string>> read_names(PtObjects& objects, std::optional<ObjectId> names) {
  std::vector<std::string> texts;
  if (!names || objects.is_none(*names)) return texts;
  SHARDKIT_ASSIGN(const auto items, objects.sequence(*names, "a mesh's dimension names"));
  SHARDKIT_TRY(objects.charge(items.size() * sizeof(std::string), *names));
  for (const ObjectId item : items) {
    SHARDKIT_ASSIGN(const auto text, objects.string(item, "a mesh's dimension name"));
    SHARDKIT_TRY(objects.charge(text.size(), item));
    texts.emplace_back(text);
  }
  return texts;
}

std::optional<ObjectId> either(const PtAttributes& attributes, std::string_view old_name,
                               std::string_view new_name) {
  const auto found = attributes.find(new_name);
  return found ? found : attributes.find(old_name);
}

/// Forms B and C record where the writing rank stands: what we made of the layout must agree.
Status check_own_coordinate(PtObjects& objects, const PtAttributes& attributes,
                            std::optional<std::int64_t> own_rank, const DeviceMesh& mesh) {
  const auto recorded = attributes.find("_coordinate_on_dim");
  if (!own_rank || !recorded || objects.is_none(*recorded)) return {};
  SHARDKIT_ASSIGN(const Dims coordinate, objects.dims(*recorded, "a mesh's own coordinate"));
  const auto found = mesh.coordinate_of(*own_rank);
  if (found && *found == coordinate) return {};
  return objects
      .error(ErrorCode::kCorrupt, "a mesh contradicts its own rank's coordinate", *recorded)
      .expected(to_string(coordinate))
      .found(found ? to_string(*found) : "no member");
}

/// The rank that a mesh says its file was written by.
Result<std::optional<std::int64_t>> writing_rank(PtObjects& objects, const PtAttributes& attributes,
                                                 std::optional<std::int64_t> own_rank,
                                                 const DeviceMesh& mesh) {
  const auto recorded = attributes.find("_coordinate_on_dim");
  if (own_rank || !recorded || objects.is_none(*recorded)) return own_rank;
  SHARDKIT_ASSIGN(const Dims coordinate, objects.dims(*recorded, "a mesh's own coordinate"));
  const Box cell{coordinate, Dims(coordinate.size(), 1)};
  if (coordinate.size() != mesh.shape().size() || !lies_inside(cell, mesh.shape()))
    return objects.error(ErrorCode::kCorrupt, "a mesh's own coordinate is outside of it", *recorded)
        .expected("a coordinate in mesh shape " + to_string(mesh.shape()))
        .found(to_string(coordinate));
  std::size_t place = 0;
  for (std::size_t d = 0; d < coordinate.size(); ++d)
    place =
        place * static_cast<std::size_t>(mesh.shape()[d]) + static_cast<std::size_t>(coordinate[d]);
  return std::optional(mesh.ranks()[place]);
}

Status note_origin(PtObjects& objects, const PtAttributes& attributes,
                   std::optional<std::int64_t> own_rank, const DeviceMesh& made, ObjectId mesh) {
  PtOrigin& origin = objects.origin();
  if (attributes.find("_parent_mesh")) origin.before_strided_shard = true;
  SHARDKIT_ASSIGN(const auto rank, writing_rank(objects, attributes, own_rank, made));
  if (rank && origin.rank && *rank != *origin.rank)
    return objects
        .error(ErrorCode::kCorrupt, "two meshes of the file were written by different ranks", mesh)
        .expected(fmt::format("rank {}", *origin.rank))
        .found(fmt::format("rank {}", *rank));
  if (rank) origin.rank = rank;
  return {};
}

Result<RankArray> read_places(PtObjects& objects, TensorReader& tensors,
                              const PtAttributes& attributes, std::optional<std::int64_t> own_rank,
                              ObjectId mesh) {
  if (const auto ranks = attributes.find("mesh")) return read_ranks(objects, tensors, *ranks);
  SHARDKIT_ASSIGN(const ObjectId layout, required(objects, attributes, "_layout", mesh));
  SHARDKIT_ASSIGN(const std::vector<Axis> axes, read_layout(objects, layout));
  const auto flat = attributes.find("_flatten_rank_map");
  auto map = attributes.find("_rank_map");
  if (!map) map = flat;
  if (!map) return required(objects, attributes, "_rank_map", mesh).error();
  SHARDKIT_ASSIGN(const RankArray rank_map, read_ranks(objects, tensors, *map));
  if (flat) {
    SHARDKIT_ASSIGN(const auto listed, objects.integers(*flat, "a mesh's rank list"));
    if (listed != rank_map.ranks)
      return objects.error(ErrorCode::kCorrupt, "a mesh's two rank maps differ", *flat);
  }
  return place(objects, axes, rank_map.ranks, own_rank, mesh);
}

Result<DeviceMesh> make_mesh(PtObjects& objects, const PtAttributes& attributes, RankArray places,
                             ObjectId mesh) {
  const auto device = either(attributes, "device_type", "_device_type");
  if (!device)
    return objects.error(ErrorCode::kUnsupported, "a mesh without a device type", mesh)
        .expected("an attribute '_device_type'");
  SHARDKIT_ASSIGN(const auto device_type, objects.string(*device, "a mesh's device type"));
  SHARDKIT_TRY(objects.charge(device_type.size(), *device));
  SHARDKIT_ASSIGN(auto names,
                  read_names(objects, either(attributes, "mesh_dim_names", "_mesh_dim_names")));
  auto made = DeviceMesh::make(std::string(device_type), std::move(places.shape),
                               std::move(places.ranks), std::move(names));
  if (!made.ok()) return Error(made.error()).at_offset(objects.graph().offset(mesh));
  return made;
}

/// The rank of the process that wrote the file, where a mesh tells it apart from its coordinate. A
/// mesh that torch 2.10 sliced has no _rank, but the mesh that it was sliced from, which is whole
/// and has the coordinate there (torch 2.10, device_mesh.py __init__).
Result<std::optional<std::int64_t>> recorded_rank(PtObjects& objects, TensorReader& tensors,
                                                  const PtAttributes& attributes) {
  if (const auto rank = attributes.find("_rank"); rank && !objects.is_none(*rank)) {
    SHARDKIT_ASSIGN(const std::int64_t own, objects.integer(*rank, "a mesh's own rank"));
    return std::optional(own);
  }
  const auto root = attributes.find("_root_mesh");
  if (!root || objects.is_none(*root)) return std::optional<std::int64_t>();
  SHARDKIT_ASSIGN(const PtAttributes of_root, objects.attributes(*root, "a mesh's root mesh"));
  SHARDKIT_ASSIGN(RankArray places, read_places(objects, tensors, of_root, std::nullopt, *root));
  SHARDKIT_ASSIGN(const DeviceMesh whole, make_mesh(objects, of_root, std::move(places), *root));
  return writing_rank(objects, of_root, std::nullopt, whole);
}

}  // namespace

Result<DeviceMesh> read_mesh(PtObjects& objects, TensorReader& tensors, ObjectId mesh) {
  if (!objects.is_a(mesh, GlobalRole::kDeviceMesh))
    return objects.unexpected("a mesh", "a DeviceMesh", mesh);
  SHARDKIT_ASSIGN(const PtAttributes attributes, objects.attributes(mesh, "a mesh"));
  SHARDKIT_ASSIGN(const auto own_rank, recorded_rank(objects, tensors, attributes));
  SHARDKIT_ASSIGN(RankArray places, read_places(objects, tensors, attributes, own_rank, mesh));
  SHARDKIT_ASSIGN(DeviceMesh made, make_mesh(objects, attributes, std::move(places), mesh));
  SHARDKIT_TRY(check_own_coordinate(objects, attributes, own_rank, made));
  SHARDKIT_TRY(note_origin(objects, attributes, own_rank, made, mesh));
  return made;
}

}  // namespace shardkit
