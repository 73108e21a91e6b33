// Tests of FoldReader: the same bits whatever the ranges, for each kind of fold.
#include "shardkit/transfer/fold_reader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "shardkit/io/file_cache.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"
#include "shardkit/transfer/transfer.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;

using Floats = std::vector<float>;

std::shared_ptr<CatalogTensor> tensor_of(const std::string& name, Dims shape,
                                         const Floats& values) {
  auto tensor = std::make_shared<CatalogTensor>();
  tensor->name = name;
  tensor->shape = shape;
  Piece piece;
  piece.box = whole(shape);
  piece.strides = contiguous_strides(shape);
  piece.storage = testing::make_storage(values);
  tensor->pieces = {piece};
  return tensor;
}

Floats random_floats(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

/// More elements than a buffer holds, in rows that no buffer ends with.
constexpr std::int64_t kOut = 901, kIn = 700, kRank = 5;
constexpr double kScale = 0.75;

struct Model {
  Floats a = random_floats(kRank * kIn, 1), b = random_floats(kOut * kRank, 2);
  Floats w = random_floats(kOut * kIn, 3), m = random_floats(kOut, 4);

  /// scale * (B A) at (out, in), by the rule of tensor/low_rank.h.
  float update(std::int64_t i, std::int64_t j) const {
    float sum = 0;
    for (std::int64_t k = 0; k < kRank; ++k) {
      const volatile float product =
          b[static_cast<std::size_t>(i * kRank + k)] * a[static_cast<std::size_t>(k * kIn + j)];
      sum += product;
    }
    const volatile float scaled = static_cast<float>(kScale) * sum;
    return scaled;
  }
};

class FoldReaderTest : public ::testing::Test {
 protected:
  std::shared_ptr<CatalogTensor> base(bool transposed, bool dora) {
    auto tensor = tensor_of("w", transposed ? Dims{kIn, kOut} : Dims{kOut, kIn}, model_.w);
    auto fold = std::make_shared<Fold>();
    fold->a = tensor_of("a", {kRank, kIn}, model_.a);
    fold->b = tensor_of("b", {kOut, kRank}, model_.b);
    fold->scale = kScale;
    fold->transposed = transposed;
    if (dora) fold->magnitude = tensor_of("m", {kOut}, model_.m);
    tensor->fold = fold;
    return tensor;
  }

  /// All elements, read in ranges of at most `step`.
  Floats read(const CatalogTensor& tensor, std::int64_t step) {
    EXPECT_THAT(prove_whole(tensor), IsOk());
    FileCache files(posix_file_system(), 4);
    RangeReader reader(files, 1 << 20);
    const PieceIndex pieces(tensor);
    Floats values(static_cast<std::size_t>(tensor.numel()));
    for (std::int64_t at = 0; at < tensor.numel(); at += step) {
      const std::int64_t end = std::min(at + step, tensor.numel());
      EXPECT_THAT(reader.read(pieces, at, end, DType::kFloat32, ReplicaPolicy::kCompare,
                              reinterpret_cast<std::byte*>(values.data() + at)),
                  IsOk());
    }
    return values;
  }

  Model model_;
};

TEST_F(FoldReaderTest, AddsTheUpdateElementByElement) {
  Floats expected = model_.w;
  for (std::int64_t i = 0; i < kOut; ++i)
    for (std::int64_t j = 0; j < kIn; ++j)
      expected[static_cast<std::size_t>(i * kIn + j)] += model_.update(i, j);
  const auto tensor = base(false, false);
  for (const std::int64_t step : {kOut * kIn, std::int64_t{100'003}, std::int64_t{699}})
    EXPECT_TRUE(read(*tensor, step) == expected) << step;
}

TEST_F(FoldReaderTest, ATransposedWeightGetsTheTransposedUpdate) {
  Floats expected = model_.w;
  for (std::int64_t i = 0; i < kIn; ++i)
    for (std::int64_t j = 0; j < kOut; ++j)
      expected[static_cast<std::size_t>(i * kOut + j)] += model_.update(j, i);
  const auto tensor = base(true, false);
  for (const std::int64_t step : {kOut * kIn, std::int64_t{100'003}, std::int64_t{899}})
    EXPECT_TRUE(read(*tensor, step) == expected) << step;
}

TEST_F(FoldReaderTest, DoraTakesTheNormsOfWholeRows) {
  Floats expected = model_.w;
  for (std::int64_t i = 0; i < kOut; ++i) {
    double squares = 0;
    for (std::int64_t j = 0; j < kIn; ++j) {
      float& sum = expected[static_cast<std::size_t>(i * kIn + j)];
      sum += model_.update(i, j);
      squares += static_cast<double>(sum) * static_cast<double>(sum);
    }
    const double magnitude = model_.m[static_cast<std::size_t>(i)];
    for (std::int64_t j = 0; j < kIn; ++j)
      expected[static_cast<std::size_t>(i * kIn + j)] *=
          static_cast<float>(magnitude / std::sqrt(squares));
  }
  const auto tensor = base(false, true);
  for (const std::int64_t step : {kOut * kIn, std::int64_t{100'003}})
    EXPECT_TRUE(read(*tensor, step) == expected) << step;
}

/// Experts in one tensor: B A of each as peft's ParamWrapper adds it up, einsum("o r e, e r i").
class ExpertsTest : public FoldReaderTest {
 protected:
  static constexpr std::int64_t kExperts = 3, kOutEach = 400, kInEach = 350;

  float update(std::int64_t expert, std::int64_t i, std::int64_t j) const {
    float sum = 0;
    for (std::int64_t k = 0; k < kRank; ++k) {
      const volatile float product =
          b_[static_cast<std::size_t>((i * kRank + k) * kExperts + expert)] *
          a_[static_cast<std::size_t>((expert * kRank + k) * kInEach + j)];
      sum += product;
    }
    const volatile float scaled = static_cast<float>(kScale) * sum;
    return scaled;
  }
  std::shared_ptr<CatalogTensor> experts(bool transposed) {
    const Dims shape =
        transposed ? Dims{kExperts, kInEach, kOutEach} : Dims{kExperts, kOutEach, kInEach};
    auto tensor = tensor_of("w", shape, w_);
    auto fold = std::make_shared<Fold>();
    fold->a = tensor_of("a", {kExperts * kRank, kInEach}, a_);
    fold->b = tensor_of("b", {kOutEach, kRank * kExperts}, b_);
    fold->scale = kScale;
    fold->transposed = transposed;
    fold->experts = kExperts;
    tensor->fold = fold;
    return tensor;
  }
  Floats expected(bool transposed) const {
    Floats sums = w_;
    std::size_t at = 0;
    const std::int64_t rows = transposed ? kInEach : kOutEach;
    const std::int64_t columns = transposed ? kOutEach : kInEach;
    for (std::int64_t e = 0; e < kExperts; ++e)
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j)
          sums[at++] += transposed ? update(e, j, i) : update(e, i, j);
    return sums;
  }

  Floats a_ = random_floats(kExperts * kRank * kInEach, 5);
  Floats b_ = random_floats(kOutEach * kRank * kExperts, 6);
  Floats w_ = random_floats(kExperts * kOutEach * kInEach, 7);
};

TEST_F(ExpertsTest, EachGetsItsOwnUpdate) {
  for (const bool transposed : {false, true}) {
    const auto tensor = experts(transposed);
    const Floats sums = expected(transposed);
    for (const std::int64_t step : {tensor->numel(), std::int64_t{100'003}, std::int64_t{349}})
      EXPECT_TRUE(read(*tensor, step) == sums) << transposed << ' ' << step;
  }
}

TEST_F(ExpertsTest, RowsOfOneAreThoseOfAll) {
  constexpr std::int64_t kFirst = 123, kRows = 170, kExpert = 2;
  for (const bool transposed : {false, true}) {
    const auto whole_tensor = experts(transposed);
    const Floats sums = expected(transposed);
    const std::int64_t rows = whole_tensor->shape[1], columns = whole_tensor->shape[2];
    const auto first = (kExpert * rows + kFirst) * columns;
    const auto cut = tensor_of("w", {kRows, columns},
                               Floats(w_.begin() + first, w_.begin() + first + kRows * columns));
    auto fold = std::make_shared<Fold>(*whole_tensor->fold);
    fold->expert = kExpert;
    fold->first_row = kFirst;
    cut->fold = fold;
    for (const std::int64_t step : {cut->numel(), std::int64_t{349}})
      EXPECT_TRUE(read(*cut, step) ==
                  Floats(sums.begin() + first, sums.begin() + first + kRows * columns));
    fold->first_row = rows - kRows + 1;
    EXPECT_THAT(prove_whole(*cut), Fails(ErrorCode::kIncomplete, "do not fit the weight"));
    fold->first_row.reset();
    EXPECT_THAT(prove_whole(*cut), Fails(ErrorCode::kIncomplete, "do not fit the weight"));
    fold->first_row = kFirst;
    fold->expert = kExperts;
    EXPECT_THAT(prove_whole(*cut), Fails(ErrorCode::kIncomplete, "do not fit the weight"));
  }
}

TEST_F(FoldReaderTest, RowsThatAreCutHaveTheirOwnMagnitudes) {
  constexpr std::int64_t kFirst = 100, kRows = 500;
  const auto uncut = base(false, true);
  const Floats expected = read(*uncut, uncut->numel());
  const auto cut =
      tensor_of("w", {kRows, kIn},
                Floats(model_.w.begin() + kFirst * kIn, model_.w.begin() + (kFirst + kRows) * kIn));
  auto fold = std::make_shared<Fold>(*uncut->fold);
  fold->first_row = kFirst;
  cut->fold = fold;
  EXPECT_TRUE(read(*cut, 100'003) ==
              Floats(expected.begin() + kFirst * kIn, expected.begin() + (kFirst + kRows) * kIn));
}

// Cut in rows, columns and both; larger than the reader's buffers.
TEST_F(FoldReaderTest, ABoxIsThatPartOfTheWhole) {
  FileCache files(posix_file_system(), 4);
  for (const auto& [transposed, dora] : {std::pair(false, false), {true, false}, {false, true}}) {
    const auto tensor = base(transposed, dora);
    const Floats expected = read(*tensor, tensor->numel());
    const std::int64_t rows = tensor->shape[0], columns = tensor->shape[1];
    for (const Box& box : {Box{{17, 0}, {rows - 17, columns}},
                           {{0, columns - 3}, {rows, 3}},
                           {{5, 100}, {600, 500}}}) {
      RangeReader reader(files, 1 << 20);
      Floats found(static_cast<std::size_t>(box.shape[0] * box.shape[1]));
      ASSERT_THAT(reader.read_box(PieceIndex(*tensor), box, DType::kFloat32,
                                  reinterpret_cast<std::byte*>(found.data()), {box.shape[1], 1}),
                  IsOk());
      for (std::int64_t i = 0; i < box.shape[0]; ++i)
        for (std::int64_t j = 0; j < box.shape[1]; ++j)
          ASSERT_EQ(
              found[static_cast<std::size_t>(i * box.shape[1] + j)],
              expected[static_cast<std::size_t>((box.offset[0] + i) * columns + box.offset[1] + j)])
              << to_string(box) << " at " << i << ", " << j;
    }
  }
}

TEST_F(FoldReaderTest, PartsThatAreNotWholeAreRefused) {
  const auto tensor = base(false, false);
  auto fold = std::make_shared<Fold>(*tensor->fold);
  auto half = std::make_shared<CatalogTensor>(*fold->a);
  half->pieces[0].box.shape = {kRank - 1, kIn};
  fold->a = half;
  tensor->fold = fold;
  EXPECT_THAT(prove_whole(*tensor), Fails(ErrorCode::kIncomplete, "tensor 'a'"));
}

class NoSink final : public BlockSink {
 public:
  Status write(std::size_t, std::uint64_t, std::span<const std::byte>) override { return {}; }
};

TEST_F(FoldReaderTest, TheFactorThatIsHeldCountsInTheBudget) {
  auto catalog = std::make_shared<Catalog>();
  catalog->tensors = {*base(false, false)};
  PlannedFile file;
  file.name = "out";
  file.tensors = {{0, DType::kFloat32, 0}};
  file.bytes = kOut * kIn * 4;
  const Plan plan = Plan::make(catalog, {file}, ReplicaPolicy::kCompare).value();
  EXPECT_EQ(FoldReader::bytes_needed(plan), kRank * kIn * 4 + (2u << 20));
  EXPECT_EQ(plan.summary().folds, 1u);
  EXPECT_EQ(plan.summary().read_bytes, 4u * (kOut * kIn + kRank * kIn + kOut * kRank));
  NoSink sink;
  TransferOptions options;
  options.memory_budget = kLeastBudget;
  EXPECT_THAT(transfer(plan, posix_file_system(), sink, options),
              Fails(ErrorCode::kInvalidArgument, "memory budget is too small"));
  options.memory_budget += FoldReader::bytes_needed(plan);
  EXPECT_THAT(transfer(plan, posix_file_system(), sink, options), IsOk());
}

}  // namespace
}  // namespace shardkit
