#include "shardkit/transfer/box_reader.h"

#include <gtest/gtest.h>

#include <random>

#include "shardkit/base/checked_math.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using testing::IsOk;

/// A file of int32 0, 1, 2, ... after 12 other bytes.
class BoxReaderTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kElements = 200000;

  BoxReaderTest() {
    std::string content(12, 'x');
    std::vector<std::int32_t> values(kElements);
    for (std::int32_t i = 0; i < kElements; ++i) values[static_cast<std::size_t>(i)] = i;
    content.append(reinterpret_cast<const char*>(values.data()), values.size() * 4);
    testing::write_file(dir_ / "f", content);
    const auto path = std::make_shared<const std::string>(dir_ / "f");
    file_ = std::make_shared<const Storage>(FileRange{path, 12}, kElements * 4);
    memory_ = testing::make_storage(values);
  }

  /// Reads a box into a row-major target with `gap` unused elements after each innermost row.
  std::vector<std::int32_t> read(BoxReader& reader, const Storage& storage, std::int64_t offset,
                                 const Dims& strides, const Dims& shape, std::int64_t gap) {
    Dims padded = shape;
    if (!padded.empty()) padded[padded.size() - 1] += gap;
    std::vector<std::int32_t> target(static_cast<std::size_t>(*element_count(padded)), -1);
    const Status status =
        reader.read({&storage, offset, strides}, 4, shape,
                    reinterpret_cast<std::byte*>(target.data()), contiguous_strides(padded));
    EXPECT_THAT(status, IsOk());
    return target;
  }

  std::vector<std::int32_t> expected(std::int64_t offset, const Dims& strides, const Dims& shape,
                                     std::int64_t gap) {
    Dims padded = shape;
    if (!padded.empty()) padded[padded.size() - 1] += gap;
    std::vector<std::int32_t> target(static_cast<std::size_t>(*element_count(padded)), -1);
    const Dims target_strides = contiguous_strides(padded);
    for (std::int64_t i = 0; i < *element_count(shape); ++i) {
      std::int64_t rest = i, from = offset, to = 0;
      for (std::size_t d = shape.size(); d-- > 0;) {
        from += rest % shape[d] * strides[d];
        to += rest % shape[d] * target_strides[d];
        rest /= shape[d];
      }
      target[static_cast<std::size_t>(to)] = static_cast<std::int32_t>(from);
    }
    return target;
  }

  testing::TempDir dir_;
  FileCache files_{posix_file_system(), 4};
  std::shared_ptr<const Storage> file_, memory_;
};

// Dense, spread, transposed, repeated, cut and single elements; scratch memory from tiny to ample.
TEST_F(BoxReaderTest, RandomBoxesAgreeWithIndexArithmetic) {
  std::mt19937_64 random(7);
  const auto below = [&random](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (const std::size_t scratch : {std::size_t{16}, std::size_t{4096}, std::size_t{1 << 20}}) {
    BoxReader reader(files_, scratch);
    for (int round = 0; round < 300; ++round) {
      Dims shape(static_cast<std::size_t>(below(4)), 1);
      Dims strides(shape.size(), 0);
      std::int64_t last = 0;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        shape[d] = below(12);
        strides[d] = std::vector<std::int64_t>{
            0, 1, 2, 7, 40, 500, 4000}[static_cast<std::size_t>(below(7))];
        last += std::max<std::int64_t>(shape[d] - 1, 0) * strides[d];
      }
      const std::int64_t offset = below(kElements - last);
      const std::int64_t gap = below(2) * 3;
      const auto wanted = expected(offset, strides, shape, gap);
      ASSERT_EQ(read(reader, *file_, offset, strides, shape, gap), wanted)
          << to_string(shape) << to_string(strides);
      ASSERT_EQ(read(reader, *memory_, offset, strides, shape, gap), wanted);
    }
  }
}

TEST_F(BoxReaderTest, ALargeTransposedBox) {
  BoxReader reader(files_, 4096);
  EXPECT_EQ(read(reader, *file_, 5, {1, 400}, {300, 200}, 0), expected(5, {1, 400}, {300, 200}, 0));
}

TEST_F(BoxReaderTest, AFileThatIsGoneIsAnError) {
  const auto path = std::make_shared<const std::string>(dir_ / "gone");
  const Storage storage(FileRange{path, 0}, 4);
  BoxReader reader(files_, 4096);
  std::byte target[4];
  EXPECT_THAT(reader.read({&storage, 0, {1}}, 4, {1}, target, {1}),
              testing::Fails(ErrorCode::kNotFound, "gone"));
}

TEST_F(BoxReaderTest, AStorageWithoutBytesIsOurMistake) {
  const Tensor meta = testing::meta_tensor(DType::kFloat32, {1});
  BoxReader reader(files_, 4096);
  std::byte target[4];
  EXPECT_THAT(reader.read({meta.storage.get(), 0, {1}}, 4, {1}, target, {1}),
              testing::Fails(ErrorCode::kInternal,
                             "a tensor of the meta device, which has no bytes, is read"));
}

}  // namespace
}  // namespace shardkit
