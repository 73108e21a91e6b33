// Tests of the split into files and of the index, against huggingface_hub and transformers.
#include "shardkit/safetensors/sharded_index.h"

#include <map>

#include "shardkit/base/checked_math.h"
#include "shardkit/safetensors/golden_test_util.h"
#include "shardkit/testing/matchers.h"

namespace shardkit::safetensors {
namespace {

using testing::Fails;
using testing::IsOk;

TEST(SplitIntoFiles, IsHuggingFaceHubs) {
  int more_than_one = 0;
  const json::Value splits = golden_json("splits.json");
  for (const json::Value& entry : items_of(splits)) {
    std::vector<std::uint64_t> bytes;
    for (const json::Value& size : items_of(at(entry, "bytes"))) bytes.push_back(*size.as_uint64());
    const auto files = split_into_files(bytes, *at(entry, "limit").as_uint64());
    const auto& expected = items_of(at(entry, "files"));
    ASSERT_EQ(files.size(), expected.size());
    if (files.size() > 1) ++more_than_one;
    for (std::size_t i = 0; i < files.size(); ++i) {
      EXPECT_EQ(weight_file_name(i, files.size()), text_of(at(expected[i], "name")));
      std::vector<std::size_t> tensors;
      for (const json::Value& t : items_of(at(expected[i], "tensors")))
        tensors.push_back(*t.as_uint64());
      EXPECT_EQ(files[i], tensors);
    }
  }
  EXPECT_GT(more_than_one, 50);
}

TEST(SplitIntoFiles, LargeSizesDoNotOverflow) {
  constexpr std::uint64_t kHuge = ~std::uint64_t{0};
  const std::vector<std::uint64_t> bytes{kHuge, 1, kHuge - 1, 1};
  EXPECT_EQ(split_into_files(bytes, kHuge).size(), 3u);
}

/// The same folder that save_pretrained(max_shard_size="3KB") made of a tiny Llama.
TEST(ShardedModel, FilesAndIndexAreTransformers) {
  const json::Value expected = golden_json("expected.json");
  const json::Value& model = at(expected, "sharded");
  std::vector<TensorSpec> specs;
  std::vector<std::uint64_t> bytes;
  Index index;
  index.total_parameters = at(model, "total_parameters").as_uint64();
  index.total_size = 0;
  for (const json::Value& tensor : items_of(at(model, "tensors"))) {
    specs.push_back(spec_of(tensor));
    bytes.push_back(static_cast<std::uint64_t>(*element_count(specs.back().shape) *
                                               item_bytes(specs.back().dtype)));
    *index.total_size += bytes.back();
  }
  const auto files = split_into_files(bytes, *at(model, "max_shard_bytes").as_uint64());
  ASSERT_EQ(files.size(), 4u);
  for (std::size_t f = 0; f < files.size(); ++f) {
    const std::string name = weight_file_name(f, files.size());
    std::vector<TensorSpec> in_file;
    for (const std::size_t i : files[f]) {
      in_file.push_back(specs[i]);
      index.weight_map.emplace_back(specs[i].name, name);
    }
    const auto layout = lay_out(in_file);
    ASSERT_THAT(layout, IsOk());
    const std::string content = testing::read_file(golden_path("sharded/" + name));
    EXPECT_EQ(content.substr(0, layout->head.size()), layout->head);
    EXPECT_EQ(content.size(), layout->file_bytes);
  }
  const std::string text =
      testing::read_file(golden_path("sharded/" + std::string(kIndexFileName)));
  EXPECT_EQ(index_json(index), text);

  const auto read = read_index(text);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->total_parameters, index.total_parameters);
  EXPECT_EQ(read->total_size, index.total_size);
  EXPECT_EQ(std::map(read->weight_map.begin(), read->weight_map.end()),
            std::map(index.weight_map.begin(), index.weight_map.end()));
}

TEST(ReadIndex, TakesOtherWriters) {
  const auto index = read_index(R"({"weight_map": {"b": "x.safetensors", "a": "sub/y.safetensors"},
                                    "metadata": {"total_size": 12.0, "mergekit": "x"}})");
  ASSERT_THAT(index, IsOk());
  EXPECT_EQ(index->total_size, std::nullopt);
  EXPECT_EQ(index->weight_map[0].first, "b");
  EXPECT_EQ(index->weight_map[1].second, "sub/y.safetensors");
  EXPECT_THAT(read_index(R"({"weight_map": {}})"), IsOk());
  EXPECT_THAT(read_index(R"({"weight_map": {"a": "..x/y..z"}})"), IsOk());
}

TEST(ReadIndex, Refuses) {
  EXPECT_THAT(read_index("{}"), Fails(ErrorCode::kCorrupt, "no weight_map"));
  EXPECT_THAT(read_index("[]"), Fails(ErrorCode::kCorrupt, "no weight_map"));
  EXPECT_THAT(read_index(R"({"weight_map": []})"), Fails(ErrorCode::kCorrupt, "no weight_map"));
  EXPECT_THAT(read_index(R"({"weight_map": {"a": 1}})"),
              Fails(ErrorCode::kCorrupt, "tensor 'a', found integer"));
  EXPECT_THAT(read_index(R"({"weight_map": {"a": "x", "a": "y"}})"),
              Fails(ErrorCode::kCorrupt, "comes twice"));
  for (const char* file : {"../x", "/etc/passwd", "a/../../x", "a/..", "..", "", "x\\u0000y"})
    EXPECT_THAT(read_index(R"({"weight_map": {"a": ")" + std::string(file) + "\"}}"),
                Fails(ErrorCode::kUnsafe, "leads out of the model's folder"))
        << file;
}

}  // namespace
}  // namespace shardkit::safetensors
