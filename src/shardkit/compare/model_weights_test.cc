#include "shardkit/compare/model_weights.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"
#include "shardkit/testing/tensors.h"
#include "shardkit/torch_pt/writer.h"

namespace shardkit {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::write_file;

/// What PyTorch and safetensors wrote.
std::string written(const std::string& name) {
  return testing::source_path("tests/fixtures/torch-2.13.0/" + name);
}

const std::string kTorchFile = written("formats_w1/formats/protocol5.pt");  // e, h and w

std::vector<std::string> names(const ModelWeights& weights) {
  std::vector<std::string> result;
  for (const auto& [key, value] : weights.tensors.items)
    result.push_back(*key.get_if<std::string>());
  return result;
}

class ReadWeightsTest : public ::testing::Test {
 protected:
  void copy(const std::string& from, const std::string& name) {
    std::filesystem::copy_file(from, dir_ / name);
  }
  Result<ModelWeights> read() { return read_weights(posix_file_system(), dir_.path()); }

  testing::TempDir dir_;
};

TEST_F(ReadWeightsTest, WhatTransformersWouldLoadFirst) {
  EXPECT_THAT(read(), Fails(ErrorCode::kNotFound, "no weights here"));
  copy(written("dtypes_w2/expected.safetensors"), "other.safetensors");
  EXPECT_EQ(read().value().notes.size(), 1u);
  copy(kTorchFile, "pytorch_model.bin");
  EXPECT_EQ(read().value().kind, "model folder (pytorch_model.bin)");
  EXPECT_EQ(read().value().tensors.items.size(), 3u);
  copy(written("plain_fp32_w2/expected.safetensors"), "model.safetensors");
  EXPECT_EQ(read().value().kind, "model folder (safetensors)");
  EXPECT_THAT(read().value().notes, IsEmpty());
  EXPECT_FALSE(read().value().config);
  write_file(dir_ / "config.json", R"({"model_type": "llama"})");
  EXPECT_EQ(read().value().config->model_type, "llama");
  write_file(dir_ / "config.json", "{");
  EXPECT_THAT(read(), Fails(ErrorCode::kCorrupt, "config.json"));
}

TEST_F(ReadWeightsTest, FilesWithoutAnIndexMayNotShareATensor) {
  copy(written("dtypes_w2/expected.safetensors"), "a.safetensors");
  copy(written("dtypes_w2/expected.safetensors"), "b.safetensors");
  EXPECT_THAT(read(), Fails(ErrorCode::kIncomplete, "b.safetensors"));
}

TEST_F(ReadWeightsTest, AnIndexOfTorchFilesMustSpeakTrue) {
  copy(kTorchFile, "part.bin");
  const auto list = [this](const std::string& tensor, const std::string& file) {
    write_file(dir_ / "pytorch_model.bin.index.json",
               R"({"weight_map": {")" + tensor + R"(": ")" + file + R"("}})");
  };
  const std::string tensor = names(read_weights(posix_file_system(), kTorchFile).value()).front();
  list(tensor, "part.bin");
  EXPECT_EQ(read().value().tensors.items.size(), 3u);
  list("more", "part.bin");
  EXPECT_THAT(read(), Fails(ErrorCode::kIncomplete, "tensor 'more'"));
  list(tensor, "gone.bin");
  EXPECT_THAT(read(), Fails(ErrorCode::kNotFound, "gone.bin"));
  list(tensor, "../part.bin");
  EXPECT_THAT(read(), Fails(ErrorCode::kUnsafe, "pytorch_model.bin.index.json"));
  copy(kTorchFile, "pytorch_model.bin");
  EXPECT_EQ(read().value().notes.size(), 1u) << "the file alone comes before an index";
}

TEST_F(ReadWeightsTest, ATensorInAnotherTorchFileThanTheIndexListsIsMissed) {
  copy(kTorchFile, "a.bin");
  const auto file = posix_file_system().create(dir_ / "b.bin").value();
  write_pt(*file, testing::make_dict({{"more", testing::float_tensor({1}, {1})}}), {}).value();
  file->close().value();
  const auto held = names(read_weights(posix_file_system(), kTorchFile).value());
  write_file(dir_ / "pytorch_model.bin.index.json", R"({"weight_map": {")" + held[0] +
                                                        R"(": "a.bin", ")" + held[1] +
                                                        R"(": "b.bin", "more": "b.bin"}})");
  EXPECT_THAT(read(), Fails(ErrorCode::kIncomplete, "lists there: tensor '" + held[1] + "'"));
}

TEST(ReadWeights, NamesOfANestedFileAreItsPaths) {
  const auto nested = read_weights(posix_file_system(), written("formats_w1/formats/nested.pt"));
  ASSERT_THAT(nested, IsOk());
  EXPECT_EQ(nested->kind, "PyTorch file");
  EXPECT_EQ(nested->tensors.items.size(), 3u);
  const auto optimizer =
      read_weights(posix_file_system(), written("optimizer_w2/optim_world_size_2_rank_0.pt"));
  ASSERT_THAT(optimizer, IsOk());
  bool found = false;
  for (const std::string& name : names(*optimizer)) found = found || name.ends_with(".exp_avg");
  EXPECT_TRUE(found);
}

TEST_F(ReadWeightsTest, AFileWithoutADictHoldsNoModel) {
  const auto file = posix_file_system().create(dir_ / "list.pt").value();
  write_pt(*file, testing::list({testing::float_tensor({1}, {1})}), {}).value();
  file->close().value();
  EXPECT_THAT(
      read_weights(posix_file_system(), dir_ / "list.pt"),
      Fails(ErrorCode::kUnsupported, "the file does not hold a dict of tensors: found list"));
}

}  // namespace
}  // namespace shardkit
