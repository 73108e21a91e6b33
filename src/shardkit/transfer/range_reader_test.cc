#include "shardkit/transfer/range_reader.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;
using testing::make_storage;

template <class T>
Piece piece(Box box, const std::vector<T>& values, std::int32_t rank, std::int32_t replica = 0,
            std::int32_t addend = 0) {
  Piece result;
  result.strides = contiguous_strides(box.shape);
  result.storage = make_storage(values);
  result.box = std::move(box);
  result.rank = rank;
  result.replica = replica;
  result.addend = addend;
  return result;
}

class RangeReaderTest : public ::testing::Test {
 protected:
  template <class T>
  Result<std::vector<T>> read(const CatalogTensor& tensor, std::int64_t begin, std::int64_t end,
                              DType dtype, ReplicaPolicy replicas = ReplicaPolicy::kCompare) {
    std::vector<T> values(static_cast<std::size_t>(end - begin));
    SHARDKIT_TRY(reader_.read(PieceIndex(tensor), begin, end, dtype, replicas,
                              reinterpret_cast<std::byte*>(values.data())));
    return values;
  }

  FileCache files_{posix_file_system(), 4};
  RangeReader reader_{files_, 4096};
};

CatalogTensor columns() {
  CatalogTensor tensor;
  tensor.name = "w";
  tensor.shape = {3, 4};
  tensor.pieces = {piece<float>({{0, 0}, {3, 2}}, {0, 1, 4, 5, 8, 9}, 0),
                   piece<float>({{0, 2}, {3, 2}}, {2, 3, 6, 7, 10, 11}, 1)};
  return tensor;
}

TEST_F(RangeReaderTest, AnyRangeOfATensorInColumns) {
  const CatalogTensor tensor = columns();
  for (std::int64_t begin = 0; begin <= 12; ++begin) {
    for (std::int64_t end = begin; end <= 12; ++end) {
      std::vector<float> wanted;
      for (std::int64_t i = begin; i < end; ++i) wanted.push_back(static_cast<float>(i));
      EXPECT_EQ(read<float>(tensor, begin, end, DType::kFloat32).value(), wanted);
    }
  }
}

// Into places with gaps, which stay as they are: each column of the target is three apart.
TEST_F(RangeReaderTest, AnyBoxOfATensorInColumns) {
  CatalogTensor sum = columns();
  sum.reduction = Accumulation::kSum;
  sum.addends = 2;
  for (Piece piece : columns().pieces) {
    piece.addend = 1;
    sum.pieces.push_back(piece);
  }
  const auto check = [this](const CatalogTensor& tensor, const Box& box, double factor) {
    std::vector<double> wanted(40, -1), found(40, -1);
    std::vector<float> wanted_as_stored(40, -1), found_as_stored(40, -1);
    for (std::int64_t i = 0; i < box.shape[0]; ++i) {
      for (std::int64_t j = 0; j < box.shape[1]; ++j) {
        const auto at = static_cast<std::size_t>(i + 3 * j);
        wanted[at] = factor * static_cast<double>(4 * (box.offset[0] + i) + box.offset[1] + j);
        wanted_as_stored[at] = static_cast<float>(wanted[at]);
      }
    }
    const PieceIndex pieces(tensor);
    EXPECT_THAT(reader_.read_box(pieces, box, DType::kFloat64,
                                 reinterpret_cast<std::byte*>(found.data()), {1, 3}),
                IsOk());
    EXPECT_EQ(found, wanted) << to_string(box);
    EXPECT_THAT(reader_.read_box(pieces, box, DType::kFloat32,
                                 reinterpret_cast<std::byte*>(found_as_stored.data()), {1, 3}),
                IsOk());
    EXPECT_EQ(found_as_stored, wanted_as_stored) << to_string(box);
  };
  for (std::int64_t row = 0; row < 3; ++row)
    for (std::int64_t column = 0; column < 4; ++column)
      for (std::int64_t rows = 0; row + rows <= 3; ++rows)
        for (std::int64_t count = 0; column + count <= 4; ++count) {
          check(columns(), {{row, column}, {rows, count}}, 1);
          check(sum, {{row, column}, {rows, count}}, 2);
        }
}

// In parts that fit the reader's buffers, whose ends cut rows.
TEST_F(RangeReaderTest, ABoxThatIsLargerThanTheBuffers) {
  CatalogTensor tensor;
  tensor.shape = {5, 1500};
  std::vector<float> values(5 * 1500);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  tensor.pieces = {piece<float>({{0, 0}, {5, 1500}}, values, 0)};
  const Box box{{1, 7}, {3, 1400}};
  std::vector<double> found(3 * 1400);
  ASSERT_THAT(reader_.read_box(PieceIndex(tensor), box, DType::kFloat64,
                               reinterpret_cast<std::byte*>(found.data()), {1400, 1}),
              IsOk());
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_EQ(found[i], static_cast<double>((1 + i / 1400) * 1500 + 7 + i % 1400)) << i;
}

// Zero dimensions: a box of one element.
TEST_F(RangeReaderTest, TheBoxOfAScalar) {
  CatalogTensor tensor;
  tensor.pieces = {piece<float>({{}, {}}, {2.5f}, 0)};
  double found = 0;
  ASSERT_THAT(reader_.read_box(PieceIndex(tensor), whole({}), DType::kFloat64,
                               reinterpret_cast<std::byte*>(&found), {}),
              IsOk());
  EXPECT_EQ(found, 2.5);
}

TEST_F(RangeReaderTest, CastsRoundToNearestEven) {
  CatalogTensor tensor;
  tensor.shape = {3};
  // 1 + 2^-8 is half way between two bfloat16 and goes to the even one; 1 + 3 * 2^-8 likewise.
  tensor.pieces = {piece<float>({{0}, {3}}, {1.00390625f, 1.01171875f, -0.0f}, 0)};
  EXPECT_EQ(read<std::uint16_t>(tensor, 0, 3, DType::kBFloat16).value(),
            (std::vector<std::uint16_t>{0x3f80, 0x3f82, 0x8000}));
}

TEST_F(RangeReaderTest, PartialAddendsAreSummedInFp32AndRoundedOnce) {
  CatalogTensor tensor;
  tensor.dtype = DType::kBFloat16;
  tensor.shape = {1};
  tensor.reduction = Accumulation::kSum;
  tensor.addends = 3;
  // 256 + 1 + 1: each bfloat16 sum would round back to 256, the exact one is 258.
  tensor.pieces = {piece<std::uint16_t>({{0}, {1}}, {0x4380}, 0, 0, 0),
                   piece<std::uint16_t>({{0}, {1}}, {0x3f80}, 1, 0, 1),
                   piece<std::uint16_t>({{0}, {1}}, {0x3f80}, 2, 0, 2)};
  EXPECT_EQ(read<std::uint16_t>(tensor, 0, 1, DType::kBFloat16).value()[0], 0x4381);
  EXPECT_EQ(read<float>(tensor, 0, 1, DType::kFloat32).value()[0], 258.0f);
  tensor.reduction = Accumulation::kAvg;
  tensor.divisor = 3;
  EXPECT_EQ(read<float>(tensor, 0, 1, DType::kFloat32).value()[0], 86.0f);
  tensor.divisor = 1;
  tensor.reduction = Accumulation::kMax;
  EXPECT_EQ(read<float>(tensor, 0, 1, DType::kFloat32).value()[0], 256.0f);
}

TEST_F(RangeReaderTest, PartialIntegersAreExact) {
  CatalogTensor tensor;
  tensor.dtype = DType::kInt64;
  tensor.shape = {1};
  tensor.reduction = Accumulation::kSum;
  tensor.addends = 2;
  const std::int64_t large = (std::int64_t{1} << 60) + 1;
  tensor.pieces = {piece<std::int64_t>({{0}, {1}}, {large}, 0, 0, 0),
                   piece<std::int64_t>({{0}, {1}}, {2}, 1, 0, 1)};
  EXPECT_EQ(read<std::int64_t>(tensor, 0, 1, DType::kInt64).value()[0], large + 2);
}

TEST_F(RangeReaderTest, ADifferingReplicaIsNamed) {
  CatalogTensor tensor = columns();
  tensor.replicas = 2;
  tensor.pieces.push_back(
      piece<float>({{0, 0}, {3, 4}}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, -10, 11}, 5, 1));
  EXPECT_THAT(read<float>(tensor, 0, 12, DType::kFloat32),
              Fails(ErrorCode::kIncomplete,
                    "ranks 1 and 5 hold different copies, first at element [2, 2]"));
  EXPECT_THAT(read<float>(tensor, 0, 10, DType::kFloat32), IsOk());
  EXPECT_THAT(read<float>(tensor, 0, 12, DType::kFloat32, ReplicaPolicy::kFirst), IsOk());
}

TEST_F(RangeReaderTest, ADifferingElementIsNamedByItsPlaceInTheFile) {
  CatalogTensor tensor;
  tensor.name = "w";
  tensor.shape = {2, 2, 2};
  tensor.written_shape = Dims{4, 2};
  tensor.replicas = 2;
  tensor.pieces = {piece<float>(whole(tensor.shape), {0, 1, 2, 3, 4, 5, 6, 7}, 0),
                   piece<float>(whole(tensor.shape), {0, 1, 2, 3, 4, 9, 6, 7}, 1, 1)};
  EXPECT_THAT(read<float>(tensor, 0, 8, DType::kFloat32),
              Fails(ErrorCode::kIncomplete, "first at element [2, 1]"));
}

TEST_F(RangeReaderTest, ReplicasOfAddendsAreComparedToo) {
  CatalogTensor tensor;
  tensor.name = "p";
  tensor.shape = {1};
  tensor.reduction = Accumulation::kSum;
  tensor.addends = 2;
  tensor.replicas = 2;
  tensor.pieces = {piece<float>({{0}, {1}}, {1}, 0, 0, 0), piece<float>({{0}, {1}}, {2}, 1, 0, 1),
                   piece<float>({{0}, {1}}, {1}, 2, 1, 0), piece<float>({{0}, {1}}, {2}, 3, 1, 1)};
  EXPECT_EQ(read<float>(tensor, 0, 1, DType::kFloat32).value()[0], 3.0f);
  tensor.pieces[3] = piece<float>({{0}, {1}}, {2.5f}, 3, 1, 1);
  EXPECT_THAT(read<float>(tensor, 0, 1, DType::kFloat32),
              Fails(ErrorCode::kIncomplete, "ranks 1 and 3"));
}

TEST_F(RangeReaderTest, FirstDifferenceIsBitByBit) {
  const CatalogTensor a = columns();
  EXPECT_EQ(first_difference(reader_, a, a).value(), std::nullopt);
  CatalogTensor b;
  b.shape = a.shape;
  b.pieces = {piece<float>({{0, 0}, {3, 4}}, {-0.0f, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 0)};
  EXPECT_EQ(first_difference(reader_, a, b).value(), 0) << "-0 is not 0";
}

}  // namespace
}  // namespace shardkit
