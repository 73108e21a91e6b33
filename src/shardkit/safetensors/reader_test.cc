// Tests of read_safetensors on files that safetensors wrote.
#include "shardkit/safetensors/reader.h"

#include "shardkit/safetensors/golden_test_util.h"
#include "shardkit/testing/matchers.h"

namespace shardkit::safetensors {
namespace {

using testing::Fails;
using testing::IsOk;

TEST(ReadSafetensors, GivesTensorsOverFileRanges) {
  FileSystem& fs = posix_file_system();
  const json::Value expected = golden_json("expected.json");
  for (const char* name : {"small", "every_dtype", "sizes", "none"}) {
    const std::string path = golden_path(name + std::string(".safetensors"));
    const auto dict = read_safetensors(fs, path);
    ASSERT_THAT(dict, IsOk());
    const std::string content = testing::read_file(path);
    ASSERT_EQ(dict->items.size(), items_of(at(expected, name)).size());
    for (const json::Value& entry : items_of(at(expected, name))) {
      const TensorSpec spec = spec_of(entry);
      const Value* value = find(*dict, spec.name);
      ASSERT_NE(value, nullptr) << spec.name;
      const Tensor* tensor = value->get_if<Tensor>();
      ASSERT_NE(tensor, nullptr);
      EXPECT_EQ(tensor->dtype, spec.dtype);
      EXPECT_EQ(tensor->shape, spec.shape);
      EXPECT_EQ(tensor->offset, 0);
      EXPECT_TRUE(is_contiguous(*tensor));
      EXPECT_THAT(check_view(*tensor), IsOk());
      const FileRange* range = tensor->storage->file();
      ASSERT_NE(range, nullptr);
      EXPECT_EQ(*range->path, path);
      EXPECT_EQ(content.substr(range->offset, tensor->storage->bytes()),
                from_hex(text_of(at(entry, "hex"))));
    }
  }
}

TEST(ReadSafetensors, KeepsDataOrder) {
  const auto dict = read_safetensors(posix_file_system(), golden_path("small.safetensors"));
  ASSERT_THAT(dict, IsOk());
  ASSERT_EQ(dict->items.size(), 2u);
  EXPECT_EQ(*dict->items[0].first.get_if<std::string>(), "embed.weight");
  EXPECT_EQ(*dict->items[1].first.get_if<std::string>(), "norm.weight");
}

TEST(ReadSafetensors, NamesTheFile) {
  const testing::TempDir dir;
  EXPECT_THAT(read_safetensors(posix_file_system(), dir / "no.safetensors"),
              Fails(ErrorCode::kNotFound, "no.safetensors"));
  testing::write_file(dir / "bad.safetensors", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_THAT(read_safetensors(posix_file_system(), dir / "bad.safetensors"),
              Fails(ErrorCode::kCorrupt, "bad.safetensors"));
}

}  // namespace
}  // namespace shardkit::safetensors
