#include "shardkit/compare/compare_catalogs.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shardkit/compare/catalog_of.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::float_tensor;
using testing::IsOk;
using testing::make_dict;

using Items = std::initializer_list<std::pair<std::string, Value>>;

ComparedTensors side(Items items, hf::DTypeChoice::Kind kind = hf::DTypeChoice::Kind::kKeep,
                     const hf::ModelConfig* config = nullptr) {
  const Value state = make_dict(items);
  return {std::make_shared<const Catalog>(catalog_of(*state.get_if<Dict>()).value()),
          {kind, DType::kBFloat16},
          config};
}

Result<Comparison> compare(const ComparedTensors& first, const ComparedTensors& second,
                           Tolerance tolerance = {}, int threads = 2) {
  ComparisonOptions options;
  options.tolerance = tolerance;
  options.transfer.threads = threads;
  return compare_catalogs(posix_file_system(), first, second, options);
}

std::vector<std::string> names(const Comparison& comparison) {
  std::vector<std::string> result;
  for (const TensorDifference& difference : comparison.differences)
    result.push_back(difference.name);
  return result;
}

TEST(CompareCatalogs, EveryKindOfDifferenceAndTheLargestFirst) {
  const auto result =
      compare(side({{"little", float_tensor({2}, {1, 2})},
                    {"same", float_tensor({2}, {1, 2})},
                    {"much", float_tensor({2, 2}, {1, 2, 3, 4})},
                    {"form", float_tensor({2, 2}, {1, 2, 3, 4})},
                    {"first", float_tensor({1}, {1})}}),
              side({{"second", float_tensor({1}, {1})},
                    {"larger", float_tensor({3}, {1, 2, 3})},
                    {"much", float_tensor({2, 2}, {1, 2, 13, 54})},
                    {"form", testing::make_tensor<std::int32_t>(DType::kInt32, {4}, {1, 2, 3, 4})},
                    {"same", float_tensor({2}, {1, 2})},
                    {"little", float_tensor({2}, {1.5, 2})}}));
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->tensors, 7u);
  EXPECT_EQ(result->equal, 1u);
  EXPECT_THAT(names(*result),
              ElementsAre("first", "larger", "second", "form", "form", "much", "little"));
  const TensorDifference& shape = result->differences[3];
  EXPECT_EQ(shape.kind, DifferenceKind::kShape);
  EXPECT_EQ(shape.first, "[2, 2]");
  EXPECT_EQ(shape.second, "[4]");
  const TensorDifference& dtype = result->differences[4];
  EXPECT_EQ(dtype.kind, DifferenceKind::kDType);
  EXPECT_EQ(dtype.first, "float32");
  EXPECT_EQ(dtype.second, "int32");
  const TensorDifference& much = result->differences[5];
  EXPECT_EQ(much.values.count, 2u);
  EXPECT_EQ(much.values.largest_error, 50);
  EXPECT_EQ(much.first_index, (Dims{1, 0}));
  EXPECT_EQ(much.values.first_values[0], 3);
  EXPECT_EQ(much.values.first_values[1], 13);
}

TEST(CompareCatalogs, TheSameForAnyNumberOfThreads) {
  const std::int64_t rows = 3 * static_cast<std::int64_t>(kBlockBytes) / 16 + 5;
  std::vector<float> values(static_cast<std::size_t>(rows) * 4, 1);
  const ComparedTensors first = side({{"w", float_tensor({rows, 4}, values)}});
  for (std::size_t i = 1234567; i < values.size(); i += 77) values[i] = 1 + static_cast<float>(i);
  Tensor by_columns = float_tensor({rows, 4}, {});
  std::vector<float> columns(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    columns[i % 4 * static_cast<std::size_t>(rows) + i / 4] = values[i];
  by_columns.storage = testing::make_storage(columns);
  by_columns.strides = {1, rows};
  const ComparedTensors second = side({{"w", by_columns}});
  for (const int threads : {1, 2, 7}) {
    const auto result = compare(first, second, {}, threads);
    ASSERT_THAT(result, IsOk());
    ASSERT_EQ(result->differences.size(), 1u);
    const TensorDifference& difference = result->differences[0];
    EXPECT_EQ(difference.values.count, (values.size() - 1234567 + 76) / 77);
    EXPECT_EQ(difference.first_index, (Dims{1234567 / 4, 1234567 % 4}));
    EXPECT_EQ(difference.values.first_values[1], 1234568);
    EXPECT_GT(difference.values.largest_error, static_cast<double>(values.size() - 100));
  }
}

TEST(CompareCatalogs, CastsFloatsAndLeavesOthers) {
  const float third = 1.0F / 3;
  const Items narrow = {{"w", testing::make_tensor<std::uint16_t>(DType::kBFloat16, {1}, {0x3EAB})},
                        {"n", testing::make_tensor<std::int64_t>(DType::kInt64, {1}, {7})}};
  const Items wide = {{"w", float_tensor({1}, {third})},
                      {"n", testing::make_tensor<std::int64_t>(DType::kInt64, {1}, {7})}};
  constexpr auto kCast = hf::DTypeChoice::Kind::kCast;
  const auto cast = compare(side(narrow, kCast), side(wide, kCast));
  ASSERT_THAT(cast, IsOk());
  EXPECT_EQ(cast->equal, 2u);
  const auto kept = compare(side(narrow), side(wide));
  ASSERT_THAT(kept, IsOk());
  ASSERT_THAT(names(*kept), ElementsAre("w"));
  EXPECT_EQ(kept->differences[0].kind, DifferenceKind::kDType);
}

TEST(CompareCatalogs, ValuesThatTheCastMakesInfiniteAreTold) {
  const hf::DTypeChoice half{hf::DTypeChoice::Kind::kCast, DType::kFloat16};
  ComparedTensors first =
      side({{"large", float_tensor({3}, {70000, 80000, 1})}, {"w", float_tensor({1}, {1})}});
  ComparedTensors second =
      side({{"large", float_tensor({3}, {90000, 80000, 1})}, {"w", float_tensor({1}, {1})}});
  EXPECT_THAT(names(compare(first, second).value()), ElementsAre("large"));
  first.dtype = second.dtype = half;
  const auto result = compare(first, second);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->equal, 2u);
  EXPECT_THAT(result->notes,
              ElementsAre("'large': 2 values of the first are too large for float16, "
                          "and equal to any other that is"));
}

TEST(CompareCatalogs, ATiedTensorStandsInForTheOneThatIsLeftOut) {
  const hf::ModelConfig config =
      hf::parse_config(R"({"model_type": "llama", "tie_word_embeddings": true})").value();
  const Tensor embedding = float_tensor({2}, {1, 2});
  const Items both = {{"model.embed_tokens.weight", embedding}, {"lm_head.weight", embedding}};
  const Items one = {{"model.embed_tokens.weight", embedding}};
  const Items other = {{"lm_head.weight", float_tensor({2}, {1, 3})},
                       {"model.embed_tokens.weight", embedding}};
  constexpr auto kKeep = hf::DTypeChoice::Kind::kKeep;
  for (const auto& [first, second] : {std::pair(side(both, kKeep, &config), side(one)),
                                      std::pair(side(one), side(both, kKeep, &config)),
                                      std::pair(side(both), side(one, kKeep, &config))}) {
    const auto result = compare(first, second);
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->equal, 2u);
    EXPECT_EQ(result->tensors, 2u);
    EXPECT_EQ(result->notes.size(), 1u);
  }
  const auto unlike = compare(side(one, kKeep, &config), side(other));
  ASSERT_THAT(unlike, IsOk());
  ASSERT_THAT(names(*unlike), ElementsAre("lm_head.weight"));
  EXPECT_EQ(unlike->differences[0].kind, DifferenceKind::kValues);
  const auto untied = compare(side(both), side(one));
  ASSERT_THAT(untied, IsOk());
  ASSERT_THAT(names(*untied), ElementsAre("lm_head.weight"));
  EXPECT_EQ(untied->differences[0].kind, DifferenceKind::kOnlyInFirst);
}

TEST(CompareCatalogs, RefusesWhatIsNotProvenOnEitherSide) {
  const ComparedTensors whole = side({{"w", float_tensor({4}, {1, 2, 3, 4})}});
  Catalog holed = *whole.catalog;
  holed.tensors[0].pieces[0].box.shape = {3};
  const ComparedTensors partial{std::make_shared<const Catalog>(holed), whole.dtype, nullptr};
  EXPECT_THAT(compare(whole, partial), Fails(ErrorCode::kIncomplete, "'w'"));
  EXPECT_THAT(compare(partial, whole), Fails(ErrorCode::kIncomplete, "'w'"));
}

TEST(CatalogOf, TensorsWithoutAStorage) {
  Tensor empty;
  empty.shape = {2, 0};
  empty.strides = {1, 1};
  const Value state = make_dict({{"empty", empty}});
  const auto catalog = catalog_of(*state.get_if<Dict>());
  ASSERT_THAT(catalog, IsOk());
  EXPECT_EQ(catalog->tensors[0].shape, (Dims{2, 0}));
  const Value scalar = make_dict({{"w", Tensor()}});
  EXPECT_THAT(catalog_of(*scalar.get_if<Dict>()), Fails(ErrorCode::kInternal, "has no storage"));
}

TEST(CompareCatalogs, ABudgetThatIsTooSmall) {
  ComparisonOptions options;
  options.transfer.memory_budget = kLeastComparisonBudget - 1;
  const ComparedTensors nothing = side({});
  EXPECT_THAT(compare_catalogs(posix_file_system(), nothing, nothing, options),
              Fails(ErrorCode::kInvalidArgument, "memory budget"));
  options.transfer.memory_budget = kLeastComparisonBudget;
  EXPECT_THAT(compare_catalogs(posix_file_system(), nothing, nothing, options), IsOk());
}

}  // namespace
}  // namespace shardkit
