// Tests of read_model on a folder that transformers wrote.
#include "shardkit/safetensors/model_reader.h"

#include <filesystem>

#include "shardkit/safetensors/golden_test_util.h"
#include "shardkit/safetensors/sharded_index.h"
#include "shardkit/testing/matchers.h"

namespace shardkit::safetensors {
namespace {

using testing::Fails;
using testing::IsOk;

/// A copy of the folder, to be broken.
class ReadModelTest : public ::testing::Test {
 protected:
  ReadModelTest() { std::filesystem::copy(golden_path("sharded"), dir_ / "model"); }

  Result<Dict> read() { return read_model(posix_file_system(), dir_ / "model"); }

  void change_index(const std::string& from, const std::string& to) {
    const std::string path = dir_ / ("model/" + std::string(kIndexFileName));
    std::string text = testing::read_file(path);
    text.replace(text.find(from), from.size(), to);
    testing::write_file(path, text);
  }

  testing::TempDir dir_;
};

TEST_F(ReadModelTest, HoldsEveryTensorOfEveryFile) {
  const auto model = read();
  ASSERT_THAT(model, IsOk());
  const json::Value expected = golden_json("expected.json");
  const auto& tensors = items_of(at(at(expected, "sharded"), "tensors"));
  ASSERT_EQ(model->items.size(), tensors.size());
  for (const json::Value& entry : tensors) {
    const TensorSpec spec = spec_of(entry);
    const Value* value = find(*model, spec.name);
    ASSERT_NE(value, nullptr) << spec.name;
    EXPECT_EQ(value->get_if<Tensor>()->shape, spec.shape) << spec.name;
    EXPECT_EQ(value->get_if<Tensor>()->dtype, spec.dtype) << spec.name;
  }
}

TEST_F(ReadModelTest, OneFileNeedsNoIndex) {
  std::filesystem::remove(dir_ / ("model/" + std::string(kIndexFileName)));
  EXPECT_THAT(read(), Fails(ErrorCode::kNotFound, "model.safetensors"));
  std::filesystem::copy(golden_path("small.safetensors"), dir_ / "model/model.safetensors");
  const auto model = read();
  ASSERT_THAT(model, IsOk());
  EXPECT_EQ(model->items.size(), 2u);
}

// As transformers does.
TEST_F(ReadModelTest, OneFileComesBeforeAnIndex) {
  std::filesystem::copy(golden_path("small.safetensors"), dir_ / "model/model.safetensors");
  EXPECT_EQ(read().value().items.size(), 2u);
}

TEST_F(ReadModelTest, AnIndexThatSaysOtherThanTheFilesIsRefused) {
  change_index("\"lm_head.weight\": \"model-00004", "\"lm_head.weight\": \"model-00003");
  EXPECT_THAT(read(), Fails(ErrorCode::kIncomplete, "lacks a tensor that the index lists"));
  EXPECT_THAT(read(), Fails(ErrorCode::kIncomplete, "tensor 'lm_head.weight'"));
  change_index("    \"lm_head.weight\": \"model-00003-of-00004.safetensors\",\n", "");
  EXPECT_THAT(read(), Fails(ErrorCode::kIncomplete, "does not list the tensor"));
  std::filesystem::remove(dir_ / "model/model-00002-of-00004.safetensors");
  EXPECT_THAT(read(), Fails(ErrorCode::kNotFound, "model-00002-of-00004"));
}

}  // namespace
}  // namespace shardkit::safetensors
