// What write_pt writes, read back; the interop tests have PyTorch read it.
#include "shardkit/torch_pt/writer.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "shardkit/testing/bytes_file.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"
#include "shardkit/testing/tree_text.h"
#include "shardkit/torch_pt/reader.h"

namespace shardkit {
namespace {

using testing::BytesFile;
using testing::BytesOutput;
using testing::Fails;
using testing::IsOk;
using testing::tree_text;

std::shared_ptr<const Storage> floats(std::vector<float> values) {
  auto owner = std::make_shared<std::vector<float>>(std::move(values));
  auto* data = reinterpret_cast<std::byte*>(owner->data());
  const std::uint64_t bytes = owner->size() * sizeof(float);
  return std::make_shared<const Storage>(MemoryBlock{std::move(owner), data}, bytes);
}

std::shared_ptr<const Sharding> sharding() {
  auto mesh = std::make_shared<const DeviceMesh>(
      DeviceMesh::make("cpu", {2, 1, 2}, {3, 1, 0, 2}, {"a", "b", "c"}).value());
  return std::make_shared<const Sharding>(
      Sharding{std::move(mesh), {StridedShard{0, 2}, Replicate{}, Shard{0}}, {16, 3}, {}});
}

Value dict(std::vector<std::pair<Value, Value>> items) { return Dict{std::move(items)}; }

std::string placeless(const Value& value) {
  return std::regex_replace(tree_text(value), std::regex("(file@[0-9]+|memory)"), "place");
}

TEST(WritePt, ReadsBackAsItWas) {
  const auto storage = floats({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const Tensor plain{DType::kFloat32, {4, 3}, {3, 1}, 0, storage};
  const Tensor view{DType::kFloat32, {3, 2}, {1, 3}, 1, storage};
  const Tensor small{DType::kFloat8E4M3FN, {4}, {1}, 2, floats({0, 0})};
  const Tensor meta{
      DType::kBFloat16, {2, 2}, {2, 1}, 0, std::make_shared<const Storage>(NoBytes{}, 8)};
  const auto spec = sharding();
  auto ordered = std::make_shared<const Sharding>(
      Sharding{spec->mesh, {Shard{0}, Partial{ReduceOp::kMax}, Shard{0}}, {16, 3}, {{0, {2, 0}}}});
  const Value tree =
      dict({{std::string("plain"), plain},
            {std::string("view"), view},
            {std::string("small"), small},
            {std::string("meta"), meta},
            {std::string("strided"), DTensor{plain, spec}},
            {std::string("ordered"), DTensor{plain, ordered}},
            {std::int64_t{7}, Tuple{{None{}, true, std::int64_t{1} << 40, -1.5, std::string("text"),
                                     Bytes{"\x01\xff"}, List{{BigInt{std::string(9, '\x40')}}},
                                     Set{{std::int64_t{3}}}}}}});
  BytesOutput file;
  ASSERT_THAT(write_pt(file, tree, {.rank = 0}), IsOk());
  const auto read = read_pt(BytesFile(file.bytes()), {.verify_crc = true});
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(placeless(read->root), placeless(tree));
  const auto& items = read->root.get_if<Dict>()->items;
  const Tensor& back = *items[0].second.get_if<Tensor>();
  EXPECT_EQ(back.storage, items[1].second.get_if<Tensor>()->storage) << "one record for both";
  float last = 0;
  std::copy_n(file.bytes().data() + back.storage->file()->offset + 44, 4,
              reinterpret_cast<char*>(&last));
  EXPECT_EQ(last, 11.0f);
}

TEST(WritePt, ATensorWithoutElementsNeedsNoStorage) {
  BytesOutput file;
  ASSERT_THAT(write_pt(file, Tensor{DType::kFloat32, {2, 0}, {1, 1}, 0, {}}), IsOk());
  const auto read = read_pt(BytesFile(file.bytes()), {.verify_crc = true});
  ASSERT_THAT(read, IsOk());
  const Tensor& empty = *read->root.get_if<Tensor>();
  EXPECT_EQ(empty.shape, (Dims{2, 0}));
  EXPECT_EQ(empty.storage->bytes(), 0u);
}

TEST(WritePt, BytesFromACallback) {
  const auto storage = std::make_shared<const Storage>(MemoryBlock{}, (3 << 20) + 8);
  const Value tree = Tensor{DType::kUInt8, {(3 << 20) + 8}, {1}, 0, storage};
  PtWriteOptions options;
  options.fill = [](const Storage&, std::uint64_t offset, std::span<std::byte> out) {
    for (std::byte& byte : out) byte = static_cast<std::byte>(offset++ % 251);
    return Status();
  };
  BytesOutput file;
  ASSERT_THAT(write_pt(file, tree, options), IsOk());
  const auto read = read_pt(BytesFile(file.bytes()), {.verify_crc = true});
  ASSERT_THAT(read, IsOk());
  const auto offset = read->root.get_if<Tensor>()->storage->file()->offset;
  EXPECT_EQ(static_cast<unsigned char>(file.bytes()[offset + (3 << 20)]), (3 << 20) % 251);
  EXPECT_THAT(write_pt(file, tree), Fails(ErrorCode::kInvalidArgument, "not in memory"));
}

/// A terabyte that takes no room: storages are holes, but the ranks of the mesh are there.
TEST(WritePt, Holes) {
  const testing::TempDir dir;
  constexpr std::int64_t kElements = std::int64_t{1} << 38;
  const auto storage = std::make_shared<const Storage>(MemoryBlock{}, kElements * 4);
  auto mesh = std::make_shared<const DeviceMesh>(DeviceMesh::make("cpu", {2}, {0, 1}).value());
  auto spec = std::make_shared<const Sharding>(Sharding{mesh, {Shard{0}}, {2 * kElements}, {}});
  const Tensor local{DType::kFloat32, {kElements}, {1}, 0, storage};
  const Value tree = dict({{std::string("w"), DTensor{local, spec}}});
  auto file = posix_file_system().create(dir / "huge.pt").value();
  ASSERT_THAT(write_pt(*file, tree, {.holes = true}), IsOk());
  ASSERT_THAT(file->close(), IsOk());
  const auto read = read_pt(posix_file_system(), dir / "huge.pt");
  ASSERT_THAT(read, IsOk());
  EXPECT_GT(read->bytes, std::uint64_t{1} << 40);
  EXPECT_EQ(placeless(read->root), placeless(tree));
}

TEST(WritePt, WhatItDoesNotWrite) {
  BytesOutput file;
  EXPECT_THAT(write_pt(file, Opaque{"numpy.dtype", {}}),
              Fails(ErrorCode::kUnsupported, "is not written to .pt files: found numpy.dtype"));
  EXPECT_THAT(write_pt(file, ShardedTensor{}), Fails(ErrorCode::kUnsupported, "ShardedTensor"));
  EXPECT_THAT(write_pt(file, BigInt{std::string(256, '\1')}),
              Fails(ErrorCode::kUnsupported, "is not written to .pt files: found 256 bytes"));
  auto mesh = std::make_shared<const DeviceMesh>(
      DeviceMesh::make("cpu", {1}, {std::int64_t{1} << 31}).value());
  auto spec = std::make_shared<const Sharding>(Sharding{mesh, {Shard{0}}, {2}, {}});
  EXPECT_THAT(write_pt(file, DTensor{{DType::kFloat32, {2}, {1}, 0, floats({1, 2})}, spec}),
              Fails(ErrorCode::kUnsupported, "beyond 32 bits: found rank 2147483648"));
}

}  // namespace
}  // namespace shardkit
