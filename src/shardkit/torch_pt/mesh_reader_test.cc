// Meshes and specs that no PyTorch here writes: later forms, contradictions, nonsense.
#include "shardkit/torch_pt/mesh_reader.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tree_text.h"
#include "shardkit/torch_pt/pickled_test_util.h"

namespace shardkit {
namespace {

using namespace pickled;
using testing::Fails;
using testing::IsOk;

const std::string kPlacements = "torch.distributed.tensor.placement_types";

Write shard(std::int64_t dim) { return object(kPlacements, "Shard", {{"dim", number(dim)}}); }

Write mesh(Attributes attributes) {
  attributes.insert(attributes.begin(), {"_device_type", text("cuda")});
  return object("torch.distributed.device_mesh", "DeviceMesh", attributes);
}

/// Forms B and C: a layout of steps, and a rank map of ints.
Write layout_b(Write shape, Write stride) {
  return object("torch.distributed._mesh_layout", "_MeshLayout",
                {{"shape", shape}, {"stride", stride}});
}
Write layout_c(std::vector<std::pair<Write, Write>> axes) {
  std::vector<Write> items;
  for (const auto& [shape, stride] : axes)
    items.push_back(object("torch.distributed._mesh_layout", "_FlatLayout",
                           {{"shape", shape}, {"stride", stride}}));
  return object("torch.distributed._mesh_layout", "_MeshLayout", {{"axes", tuple(items)}});
}

struct Spec {
  Write mesh;
  std::vector<Write> placements;
  Attributes more = {};
};

/// A DTensor of 8 x 3 elements, 4 x 3 of them local.
Write dtensor_of(Attributes spec) {
  return wrapper(global("torch.distributed.tensor", "DTensor"), {8, 3}, {3, 1},
                 tuple({none(), dict({{"_local_tensor", floats({4, 3}, {3, 1})},
                                      {"_spec", object("torch.distributed.tensor._dtensor_spec",
                                                       "DTensorSpec", std::move(spec))}})}));
}

Write dtensor(const Spec& spec) {
  Attributes attributes = {{"mesh", spec.mesh}, {"placements", tuple(spec.placements)}};
  attributes.insert(attributes.end(), spec.more.begin(), spec.more.end());
  return dtensor_of(std::move(attributes));
}

std::string sharding_of(const Spec& spec) {
  const auto file = read(dtensor(spec));
  if (!file.ok()) return file.error().message();
  return testing::sharding_text(*file->root.get_if<DTensor>()->sharding);
}

const Write kLine =
    mesh({{"_layout", layout_b(ints({4}), ints({1}))}, {"_rank_map", ints({0, 1, 2, 3})}});

TEST(MeshForms, RankMapsOfInts) {
  EXPECT_EQ(sharding_of({kLine, {shard(0)}}), "[8, 3] on cuda [4] 0 1 2 3: S(0)");
  EXPECT_EQ(sharding_of({mesh({{"_layout", layout_c({{ints({4}), ints({1})}})},
                               {"_flatten_rank_map", ints({3, 2, 1, 0})}}),
                         {shard(0)}}),
            "[8, 3] on cuda [4] 3 2 1 0: S(0)");
}

/// torch 2.11, _mesh_layout.py: nested tuples, a plain int for a layout of one dimension.
TEST(MeshForms, NestedLayoutsOfFormB) {
  const Write ranks = ints({0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(sharding_of({mesh({{"_layout", layout_b(number(8), number(1))}, {"_rank_map", ranks}}),
                         {shard(0)}}),
            "[8, 3] on cuda [8] 0 1 2 3 4 5 6 7: S(0)");
  // Dimensions 0 and 2 of 2 x 2 x 2 flattened: 0 1 4 5, and for rank 3 the other copy.
  const Write flat = layout_b(tuple({ints({2, 2})}), tuple({ints({4, 1})}));
  EXPECT_EQ(sharding_of({mesh({{"_layout", flat}, {"_rank_map", ranks}, {"_rank", number(3)}}),
                         {shard(0)}}),
            "[8, 3] on cuda [4] 2 3 6 7: S(0)");
}

/// torch 2.10 writes no _rank. Where the writing rank stands tells the mesh that was sliced.
TEST(MeshForms, ASliceOfTorch210IsToldByItsRootMesh) {
  const Write ranks = ints({0, 1, 2, 3});
  const auto slice = [&ranks](Attributes root) {
    root.insert(root.end(), {{"_rank_map", ranks}, {"_root_mesh", none()}});
    return Spec{mesh({{"_layout", layout_b(ints({2}), ints({2}))},
                      {"_rank_map", ranks},
                      {"_root_mesh", mesh(std::move(root))},
                      {"_coordinate_on_dim", ints({1})}}),
                {shard(0)}};
  };
  const Write square = layout_b(ints({2, 2}), ints({2, 1}));
  EXPECT_EQ(sharding_of(slice({{"_layout", square}, {"_coordinate_on_dim", ints({1, 0})}})),
            "[8, 3] on cuda [2] 0 2: S(0)");
  EXPECT_EQ(sharding_of(slice({{"_layout", square}, {"_coordinate_on_dim", ints({1, 1})}})),
            "[8, 3] on cuda [2] 1 3: S(0)");
  const auto fails = [&slice](Attributes root, const std::string& says) {
    EXPECT_THAT(read(dtensor(slice(std::move(root)))), Fails(ErrorCode::kCorrupt, says));
  };
  fails({{"_layout", square}, {"_coordinate_on_dim", none()}}, "which slice it is");
  fails({{"_layout", square}, {"_coordinate_on_dim", ints({1, 2})}}, "outside of it");
  fails({{"_layout", square}, {"_coordinate_on_dim", ints({0, 1})}}, "its own rank's coordinate");
  fails({{"_layout", layout_b(ints({2}), ints({2}))}, {"_coordinate_on_dim", ints({1})}},
        "which slice it is");
}

TEST(MeshForms, UnknownAttributesAreIgnored) {
  EXPECT_EQ(sharding_of({mesh({{"_layout", layout_b(ints({4}), ints({1}))},
                               {"_rank_map", ints({0, 1, 2, 3})},
                               {"_of_torch_2_99", ints({7})}}),
                         {shard(0)},
                         {{"also_new", number(1)}}}),
            "[8, 3] on cuda [4] 0 1 2 3: S(0)");
}

TEST(MeshForms, WhatIsMissingOrContradictory) {
  const Write layout = layout_b(ints({2}), ints({1}));
  const auto fails = [](const Write& of, ErrorCode code, const std::string& says) {
    EXPECT_THAT(read(dtensor({of, {shard(0)}})), Fails(code, says));
  };
  fails(mesh({}), ErrorCode::kUnsupported, "a mesh in an unknown form");
  fails(object("torch.distributed.device_mesh", "DeviceMesh",
               {{"_layout", layout}, {"_rank_map", ints({0, 1})}}),
        ErrorCode::kUnsupported,
        "a mesh without a device type: expected an attribute '_device_type'");
  fails(mesh({{"_layout", layout}}), ErrorCode::kUnsupported, "an attribute '_rank_map'");
  fails(mesh({{"_layout", layout}, {"_rank_map", ints({0, 1, 2, 3})}}), ErrorCode::kCorrupt,
        "which slice it is");
  fails(mesh({{"_layout", layout}, {"_rank_map", ints({0, 1, 2, 3})}, {"_rank", number(9)}}),
        ErrorCode::kCorrupt, "which slice it is");
  fails(
      mesh({{"_layout", layout}, {"_rank_map", ints({0, 1})}, {"_flatten_rank_map", ints({1, 0})}}),
      ErrorCode::kCorrupt, "two rank maps differ");
  fails(mesh({{"_layout", layout},
              {"_rank_map", ints({0, 1})},
              {"_rank", number(1)},
              {"_coordinate_on_dim", ints({0})}}),
        ErrorCode::kCorrupt, "contradicts its own rank's coordinate");
  fails(mesh({{"_layout", layout}, {"_rank_map", ints({0, 1})}, {"_coordinate_on_dim", ints({2})}}),
        ErrorCode::kCorrupt,
        "coordinate is outside of it: expected a coordinate in mesh shape [2], found [2]");
  const std::vector<std::pair<Write, Write>> axes(65, {ints({}), ints({})});
  fails(mesh({{"_layout", layout_c(axes)}, {"_rank_map", ints({0})}}), ErrorCode::kLimit,
        "a mesh has too many dimensions: expected at most 64, found 65");
  fails(mesh({{"_layout", layout_b(ints({4, 4}), ints({1, 1}))}, {"_rank_map", ints({0, 1})}}),
        ErrorCode::kCorrupt, "more places than there are ranks");
  fails(
      mesh({{"_layout", layout_b(ints({2, 2}), ints({1, 1}))}, {"_rank_map", ints({0, 1, 2, 3})}}),
      ErrorCode::kCorrupt, "overlaps itself");
  fails(mesh({{"_layout", layout_b(ints({2}), ints({0}))}, {"_rank_map", ints({0, 1})}}),
        ErrorCode::kCorrupt, "overlaps itself");
  fails(mesh({{"_layout", layout_b(ints({2}), ints({3}))},
              {"_rank_map", ints({0, 1, 2})},
              {"_rank", number(0)}}),
        ErrorCode::kCorrupt, "leaves its rank map");
  fails(mesh({{"_layout", layout_b(ints({2}), ints({1, 1}))}, {"_rank_map", ints({0, 1})}}),
        ErrorCode::kCorrupt, "as many strides as sizes");
  fails(mesh({{"_layout", layout}, {"_rank_map", ints({1, 1})}}), ErrorCode::kCorrupt, "");
}

TEST(MeshForms, RanksInATensor) {
  const auto fails = [](const Write& ranks, ErrorCode code, const std::string& says) {
    const Write made = mesh({{"_layout", layout_b(ints({2}), ints({1}))}, {"_rank_map", ranks}});
    EXPECT_THAT(read(dict({{"w", dtensor({made, {shard(0)}})}})), Fails(code, says));
  };
  const Write six = storage("LongStorage", 6);
  fails(floats({2}, {1}), ErrorCode::kCorrupt,
        "a mesh's ranks are no integers: tensor 'w', found float32");
  fails(tensor(storage("LongStorage", 2, "meta"), {2}, {1}), ErrorCode::kCorrupt,
        "a mesh's ranks have no data (meta device): tensor 'w'");
  fails(tensor(six, {49}, {0}), ErrorCode::kCorrupt, "a mesh's ranks repeat (a stride of 0)");
  fails(tensor(six, {(1 << 20) + 1}, {0}), ErrorCode::kLimit,
        "a mesh of too many ranks: tensor 'w', expected at most 1048576, found 1048577");
}

TEST(MeshForms, AFileIsOfOneRank) {
  const auto of_rank = [](std::int64_t rank) {
    return dtensor({mesh({{"_layout", layout_b(ints({2}), ints({1}))},
                          {"_rank_map", ints({0, 1})},
                          {"_rank", number(rank)}}),
                    {shard(0)}});
  };
  EXPECT_THAT(read(dict({{"v", of_rank(1)}, {"w", of_rank(1)}})), IsOk());
  EXPECT_THAT(read(dict({{"v", of_rank(1)}, {"w", of_rank(0)}})),
              Fails(ErrorCode::kCorrupt,
                    "two meshes of the file were written by different ranks: "
                    "tensor 'w', expected rank 1, found rank 0"));
}

TEST(MeshForms, DifferentMeshesAreBounded) {
  Attributes tensors;
  for (std::int64_t rank = 0; rank <= 4096; ++rank)
    tensors.emplace_back(
        "w" + std::to_string(rank),
        dtensor({mesh({{"_layout", layout_b(ints({1}), ints({1}))}, {"_rank_map", ints({rank})}}),
                 {shard(0)}}));
  EXPECT_THAT(
      read(dict(tensors)),
      Fails(ErrorCode::kLimit, "too many different meshes: tensor 'w4096', expected at most 4096"));
  tensors.pop_back();
  EXPECT_THAT(read(dict(tensors)), IsOk());
}

TEST(MeshForms, WhatUnfoldsWithoutEnd) {
  const auto too_large = [](const Write& root) {
    EXPECT_THAT(read(root), Fails(ErrorCode::kLimit, "too large"));
  };
  const Write layout = layout_b(ints({2}), ints({1}));
  const Write ranks = ints({0, 1});
  Write nested = number(1);
  for (int level = 0; level < 8; ++level) nested = repeated(nested, 100);
  too_large(
      dtensor({mesh({{"_layout", layout_b(nested, nested)}, {"_rank_map", ranks}}), {shard(0)}}));
  const Write names = repeated(text(std::string(100'000, 'x')), 10'000);
  too_large(dtensor(
      {mesh({{"_mesh_dim_names", names}, {"_layout", layout}, {"_rank_map", ranks}}), {shard(0)}}));
  const Write orders = repeated(tuple({number(0), repeated(number(0), 10'000)}), 10'000);
  too_large(dtensor({kLine, {shard(0)}, {{"shard_order", orders}}}));
  // One object of many attributes, looked at ten thousand times.
  Attributes attributes = {{"dim", number(0)}};
  for (int i = 0; i < 10'000; ++i) attributes.push_back({"_" + std::to_string(i), none()});
  const Write placements = repeated(object(kPlacements, "Shard", attributes), 10'000);
  too_large(dtensor({kLine, {}, {{"placements", placements}}}));
}

TEST(Specs, Placements) {
  const auto of = [](const Write& placement) { return sharding_of({kLine, {placement}}); };
  const std::string on = "[8, 3] on cuda [4] 0 1 2 3: ";
  EXPECT_EQ(of(call(kPlacements, "Shard", {number(1)})), on + "S(1)");
  EXPECT_EQ(of(call(kPlacements, "Replicate", {})), on + "R");
  EXPECT_EQ(of(object(kPlacements, "Partial", {})), on + "P(sum)");
  EXPECT_EQ(of(object("torch.distributed._tensor.placement_types", "_Partial",
                      {{"reduce_op",
                        [](pickle::Writer& w) {
                          call("__builtin__", "getattr",
                               {global("torch.distributed.distributed_c10d", "ReduceOp"),
                                text("RedOpType")})(w);
                          w.empty_tuple();
                          w.new_object();
                          w.integer(4);
                          w.build();
                        }}})),
            on + "P(max)")
      << "the enum that versions before 2.4 kept";
  const auto fails = [](const Write& placement, ErrorCode code, const std::string& says) {
    EXPECT_THAT(read(dtensor({kLine, {placement}})), Fails(code, says));
  };
  fails(object(kPlacements, "Partial", {{"reduce_op", text("bor")}}), ErrorCode::kUnsupported,
        "a Partial with an unknown reduce_op: found bor");
  fails(call(kPlacements, "Shard", {number(0), number(1)}), ErrorCode::kUnsupported,
        "a placement with unknown arguments: expected at most 1, found 2 for "
        "torch.distributed.tensor.placement_types.Shard");
  fails(object(kPlacements, "Shard", {{"dim", number(0)}, {"sizes", ints({1})}}),
        ErrorCode::kUnsupported, "'sizes' of torch.distributed.tensor.placement_types.Shard");
  fails(object(kPlacements, "Shard", {}), ErrorCode::kCorrupt, "an attribute 'dim'");
  fails(shard(2), ErrorCode::kCorrupt, "");
  fails(shard(-1), ErrorCode::kCorrupt, "");
  fails(object(kPlacements, "_StridedShard", {{"dim", number(0)}}), ErrorCode::kCorrupt,
        "an attribute 'split_factor'");
  fails(number(3), ErrorCode::kCorrupt, "a placement");
  EXPECT_THAT(read(dtensor({kLine, {shard(0), shard(0)}})), Fails(ErrorCode::kCorrupt, ""));
}

TEST(Specs, ShapesAndOrders) {
  const Write square =
      mesh({{"_layout", layout_b(ints({2, 2}), ints({2, 1}))}, {"_rank_map", ints({0, 1, 2, 3})}});
  const auto entry = [](std::int64_t dim, std::vector<std::int64_t> mesh_dims) {
    return tuple({number(dim), ints(std::move(mesh_dims))});
  };
  const std::string on = "[8, 3] on cuda [2, 2] 0 1 2 3: S(0) S(0)";
  EXPECT_EQ(
      sharding_of({square, {shard(0), shard(0)}, {{"shard_order", tuple({entry(0, {0, 1})})}}}),
      on);
  EXPECT_EQ(
      sharding_of({square, {shard(0), shard(0)}, {{"shard_order", tuple({entry(0, {1, 0})})}}}),
      on + " order 0:1,0");
  const auto fails = [&square](Attributes more, const std::string& says) {
    EXPECT_THAT(read(dtensor({square, {shard(0), shard(0)}, std::move(more)})),
                Fails(ErrorCode::kCorrupt, says));
  };
  EXPECT_THAT(read(dtensor_of({{"mesh", square}})),
              Fails(ErrorCode::kUnsupported,
                    "a DTensorSpec in an unknown form: expected attributes 'mesh' and "
                    "'placements'"));
  // torch 2.10 states the order that _StridedShard placements have once more.
  const auto strided = [&](std::int64_t split_factor, std::vector<std::int64_t> order) {
    return Spec{square,
                {object(kPlacements, "_StridedShard",
                        {{"dim", number(0)}, {"split_factor", number(split_factor)}}),
                 shard(0)},
                {{"shard_order", tuple({entry(0, std::move(order))})}}};
  };
  EXPECT_EQ(sharding_of(strided(2, {1, 0})), "[8, 3] on cuda [2, 2] 0 1 2 3: _S(0, 2) S(0)");
  EXPECT_EQ(sharding_of(strided(3, {0, 1})), "[8, 3] on cuda [2, 2] 0 1 2 3: _S(0, 3) S(0)");
  for (const Spec& contradiction : {strided(3, {1, 0}), strided(4, {1, 0})})
    EXPECT_THAT(read(dtensor(contradiction)),
                Fails(ErrorCode::kUnsupported, "reorders a dimension that a _StridedShard cuts"));
  fails({{"shard_order", tuple({entry(0, {1})})}}, "shard_order");
  fails({{"shard_order", tuple({entry(0, {1, 0})})},
         {"use_strided_shard_as_shard_order", boolean(true)}},
        "states its shard order twice");
  const auto meta = [](Write shape) {
    return [shape](pickle::Writer& w) {
      w.global("torch.distributed.tensor._dtensor_spec", "TensorMeta");
      tuple({call("torch", "Size", {shape}), ints({3, 1}), global("torch", "float32")})(w);
      w.new_object();
    };
  };
  EXPECT_EQ(sharding_of({square, {shard(0), shard(0)}, {{"tensor_meta", meta(ints({8, 3}))}}}), on);
  fails({{"tensor_meta", meta(ints({9, 3}))}}, "two global shapes: expected [8, 3], found [9, 3]");
}

// sharding_hash_test.cc shows that they are found fast.
TEST(Specs, ManyThatDifferInOnePartStayApart) {
  std::vector<Write> items;
  for (std::int64_t factor = 1; factor <= 65'000; ++factor)
    items.push_back(dtensor({kLine,
                             {object(kPlacements, "_StridedShard",
                                     {{"dim", number(0)}, {"split_factor", number(factor)}})}}));
  const auto file = read(tuple(items));
  ASSERT_THAT(file, IsOk());
  const auto& tensors = file->root.get_if<Tuple>()->items;
  ASSERT_EQ(tensors.size(), 65'000u);
  std::set<const Sharding*> shardings;
  for (const Value& tensor : tensors) shardings.insert(tensor.get_if<DTensor>()->sharding.get());
  EXPECT_EQ(shardings.size(), 65'000u);
}

}  // namespace
}  // namespace shardkit
