// ShardedTensors that contradict themselves; reader_test.cc reads those that PyTorch wrote.
#include "shardkit/torch_pt/sharded_tensor_reader.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "shardkit/testing/matchers.h"
#include "shardkit/torch_pt/pickled_test_util.h"

namespace shardkit {
namespace {

using namespace pickled;
using testing::Fails;
using testing::IsOk;
using Sizes = std::vector<std::int64_t>;

const std::string kShardedTensor = "torch.distributed._shard.sharded_tensor";

Write metadata(const Sizes& offset, const Sizes& size) {
  return object("torch.distributed._shard.metadata", "ShardMetadata",
                {{"shard_offsets", ints(offset)},
                 {"shard_sizes", ints(size)},
                 {"placement", text("rank:0/cpu")}});
}

Write local(Write tensor, Write metadata) {
  return object(kShardedTensor + ".shard", "Shard",
                {{"tensor", std::move(tensor)}, {"metadata", std::move(metadata)}});
}

/// A float32 ShardedTensor of 8 x 3 elements, cut into halves of which the first is here.
struct Parts {
  Sizes size = {8, 3};
  Write shards = tuple({metadata({0, 0}, {4, 3}), metadata({4, 0}, {4, 3})});
  Write locals = tuple({local(floats({4, 3}, {3, 1}), metadata({0, 0}, {4, 3}))});
  std::string layout = "torch.strided";
  Sizes outer_size = size;
};

Write sharded(const Parts& parts) {
  const Write properties =
      instance(kShardedTensor + ".metadata", "TensorProperties",
               tuple({global("torch", "float32"),
                      call("torch.serialization", "_get_layout", {text(parts.layout)}),
                      boolean(false), none(), boolean(false)}));
  const Write metadata = object(kShardedTensor + ".metadata", "ShardedTensorMetadata",
                                {{"shards_metadata", parts.shards},
                                 {"size", ints(parts.size)},
                                 {"tensor_properties", properties}});
  return wrapper(global(kShardedTensor + ".api", "ShardedTensor"), parts.outer_size, {3, 1},
                 tuple({parts.locals, metadata, none(), none(), none()}));
}

void fails(const Parts& parts, ErrorCode code, const std::string& says) {
  EXPECT_THAT(read(dict({{"w", sharded(parts)}})), Fails(code, says));
}

TEST(ShardedTensors, MustFitTheirMetadata) {
  constexpr ErrorCode kCorrupt = ErrorCode::kCorrupt;
  ASSERT_THAT(read(dict({{"w", sharded({})}})), IsOk());
  const Write half = floats({4, 3}, {3, 1});
  fails({.locals = tuple({local(floats({3, 4}, {4, 1}), metadata({0, 0}, {4, 3}))})}, kCorrupt,
        "a local shard is not what its metadata says: tensor 'w', expected [4, 3] of float32, "
        "found [3, 4] of float32");
  fails({.locals = tuple({local(half, metadata({1, 0}, {4, 3}))})}, kCorrupt,
        "a local shard that the metadata does not list: tensor 'w', found offset [1, 0], "
        "size [4, 3]");
  fails({.shards = tuple({metadata({5, 0}, {4, 3})})}, kCorrupt,
        "a shard that does not lie in its tensor: tensor 'w', expected inside shape [8, 3], found "
        "offset [5, 0], size [4, 3]");
  fails({.shards = tuple({metadata({0, 0}, {4, 3}), metadata({3, 0}, {4, 3})})}, kCorrupt,
        "two shards of a ShardedTensor overlap: tensor 'w'");
  fails({.shards = tuple({object("torch.distributed._shard.metadata", "ShardMetadata",
                                 {{"shard_offsets", ints({0, 0})}})})},
        kCorrupt, "a part of a ShardedTensor has no attribute 'shard_sizes': tensor 'w'");
  fails({.outer_size = {9, 3}}, kCorrupt,
        "a ShardedTensor has two global shapes: tensor 'w', expected [9, 3], found [8, 3]");
  fails({.size = {INT64_MAX / 4, 3}}, kCorrupt, "a ShardedTensor's size overflows: tensor 'w'");
  fails({.layout = "torch.sparse_coo"}, ErrorCode::kUnsupported,
        "a ShardedTensor that is not strided: tensor 'w', found torch.sparse_coo");
}

/// The second half is itself a ShardedTensor of one shard.
TEST(ShardedTensors, NestedOnesMustFillTheirShard) {
  const auto outer = [](const Parts& inner) {
    return Parts{.locals = tuple({local(sharded(inner), metadata({4, 0}, {4, 3}))})};
  };
  const auto inner = [](const Sizes& size, const Sizes& offset, const Sizes& shard) {
    return Parts{.size = size,
                 .shards = tuple({metadata(offset, shard)}),
                 .locals = tuple({local(floats(shard, {3, 1}), metadata(offset, shard))})};
  };
  ASSERT_THAT(read(sharded(outer(inner({4, 3}, {0, 0}, {4, 3})))), IsOk());
  fails(outer(inner({5, 3}, {0, 0}, {4, 3})), ErrorCode::kCorrupt,
        "a nested ShardedTensor is not the shard it fills: tensor 'w', expected [4, 3] of float32, "
        "found [5, 3] of float32");
  // A shard without elements may lie anywhere.
  fails(outer(inner({4, 3}, {INT64_MAX, 0}, {0, 3})), ErrorCode::kCorrupt,
        "a shard's offset overflows: tensor 'w'");
}

TEST(ShardedTensors, StatesHaveFiveParts) {
  const Write type = global(kShardedTensor + ".api", "ShardedTensor");
  EXPECT_THAT(read(wrapper(type, {8, 3}, {3, 1}, tuple({none(), none()}))),
              Fails(ErrorCode::kCorrupt,
                    "a ShardedTensor's state is not what it must be: expected 5 parts, found a "
                    "tuple of 2"));
}

TEST(ShardedTensors, LookUpsAreBounded) {
  const Write empty = metadata({0, 0}, {0, 3});
  fails({.shards = repeated(empty, 10'000),
         .locals = repeated(local(floats({0, 3}, {3, 1}), empty), 1'001)},
        ErrorCode::kLimit,
        "a ShardedTensor of too many shards: tensor 'w', found 1001 local ones of 10000");
}

}  // namespace
}  // namespace shardkit
