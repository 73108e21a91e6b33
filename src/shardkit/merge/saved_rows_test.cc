// Rows in another order against index arithmetic written out here, from pieces of any form: cut
// anywhere in any dimension, in storages of any order of dimensions, with replicas.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <random>

#include "shardkit/base/checked_math.h"
#include "shardkit/hf/config.h"
#include "shardkit/merge/merge_to_memory.h"
#include "shardkit/merge/saved_catalog.h"
#include "shardkit/state/memory.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using testing::IsOk;
using Floats = std::vector<float>;

class RandomPieces {
 public:
  explicit RandomPieces(unsigned seed) : random_(seed) {}

  std::int64_t below(std::int64_t end) {
    return std::uniform_int_distribution<std::int64_t>(0, end - 1)(random_);
  }

  /// `first`, `first` + 1, ... in row-major order; two copies, each cut in its own way.
  CatalogTensor counting(std::string name, const Dims& shape, float first) {
    CatalogTensor tensor;
    tensor.name = std::move(name);
    tensor.shape = shape;
    tensor.replicas = 2;
    for (std::int32_t replica = 0; replica < 2; ++replica) {
      std::vector<Box> boxes = {whole(shape)};
      for (std::int64_t cuts = below(6); cuts > 0; --cuts) cut(boxes);
      std::sort(boxes.begin(), boxes.end(), [](const Box& a, const Box& b) {
        return std::lexicographical_compare(a.offset.begin(), a.offset.end(), b.offset.begin(),
                                            b.offset.end());
      });
      for (const Box& box : boxes) tensor.pieces.push_back(piece(box, shape, first, replica));
    }
    return tensor;
  }

 private:
  void cut(std::vector<Box>& boxes) {
    Box& box = boxes[static_cast<std::size_t>(below(std::ssize(boxes)))];
    const auto dim = static_cast<std::size_t>(below(std::ssize(box.shape)));
    if (box.shape[dim] < 2) return;
    Box rest = box;
    const std::int64_t at = 1 + below(box.shape[dim] - 1);
    box.shape[dim] = at;
    rest.offset[dim] += at;
    rest.shape[dim] -= at;
    boxes.push_back(rest);
  }

  Piece piece(const Box& box, const Dims& shape, float first, std::int32_t replica) {
    std::vector<std::size_t> dims(shape.size());
    std::iota(dims.begin(), dims.end(), 0);
    std::shuffle(dims.begin(), dims.end(), random_);
    Dims strides(shape.size(), 0);
    std::int64_t step = 1 + below(2);
    for (const std::size_t dim : dims) {
      strides[dim] = step;
      step *= box.shape[dim];
    }
    const std::int64_t offset = below(3);
    Floats values(static_cast<std::size_t>(offset + step), -1.0f);
    const Dims in_tensor = contiguous_strides(shape);
    const Dims in_box = contiguous_strides(box.shape);
    for (std::int64_t i = 0; i < *element_count(box.shape); ++i) {
      std::int64_t from = offset, position = 0;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        const std::int64_t index = i / in_box[d] % box.shape[d];
        from += index * strides[d];
        position += (box.offset[d] + index) * in_tensor[d];
      }
      values[static_cast<std::size_t>(from)] = first + static_cast<float>(position);
    }
    return {box, strides, offset, testing::make_storage(values), 0, replica, 0};
  }

  std::mt19937 random_;
};

/// Held tensors; the n-th counts from 10,000 n on.
using Held = std::vector<std::pair<std::string, Dims>>;

/// The only saved tensor, or the one of a number.
Floats saved_values(const std::string& config, const Held& held, unsigned seed,
                    std::size_t number = 0) {
  RandomPieces random(seed);
  Catalog catalog;
  catalog.world_size = 1;
  for (const auto& [name, shape] : held)
    catalog.tensors.push_back(
        random.counting(name, shape, 10'000 * static_cast<float>(catalog.tensors.size())));
  MergeSource source;
  source.catalog = std::make_shared<const Catalog>(std::move(catalog));
  source.config = hf::parse_config(config).value();
  const SavedCatalog saved = saved_catalog(source, std::vector<bool>(held.size(), false)).value();
  const Tensor merged = merge_to_memory(posix_file_system(), saved.catalog, number, DType::kFloat32,
                                        ReplicaPolicy::kCompare, {})
                            .value();
  Floats values(static_cast<std::size_t>(merged.numel()));
  std::memcpy(values.data(), first_element(merged).value(), values.size() * sizeof(float));
  return values;
}

/// The saved values of a matrix whose row i is row `row_of(i)` of the held tensors, counted
/// through.
Floats rows(std::int64_t count, std::int64_t columns, std::int64_t rows_of_each,
            const std::function<std::int64_t(std::int64_t)>& row_of) {
  Floats values;
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t row = row_of(i);
      values.push_back(
          static_cast<float>(row / rows_of_each * 10'000 + row % rows_of_each * columns + j));
    }
  return values;
}

constexpr unsigned kSeeds = 40;

TEST(SavedRows, OfHeadsThatAlternate) {
  const std::string attn = "model.vision_tower.layers.0.attn.";
  constexpr std::int64_t kHeads = 3, kHalf = 5, kRows = kHeads * 2 * kHalf, kColumns = 4;
  const Floats expected = rows(3 * kRows, kColumns, kRows, [](std::int64_t i) {
    const std::int64_t head = i % kRows / (2 * kHalf), in_head = i % (2 * kHalf);
    if (i >= 2 * kRows) return i;
    return i / kRows * kRows + head * 2 * kHalf + in_head % 2 * kHalf + in_head / 2;
  });
  for (unsigned seed = 0; seed < kSeeds; ++seed)
    EXPECT_EQ(saved_values(R"({"model_type": "kimi_k25", "vision_config":
                               {"model_type": "kimi_k25_vision", "num_attention_heads": 3}})",
                           {{attn + "q_proj.weight", {kRows, kColumns}},
                            {attn + "k_proj.weight", {kRows, kColumns}},
                            {attn + "v_proj.weight", {kRows, kColumns}}},
                           seed),
              expected)
        << seed;
}

TEST(SavedRows, OfTwoTensorsThatAlternate) {
  constexpr std::int64_t kRows = 7, kColumns = 6;
  const std::string mlp = "model.language_model.layers.0.mlp.";
  const Floats expected =
      rows(2 * kRows, kColumns, kRows, [](std::int64_t i) { return i % 2 * kRows + i / 2; });
  for (unsigned seed = 0; seed < kSeeds; ++seed)
    EXPECT_EQ(saved_values(R"({"model_type": "inkling_mm_model"})",
                           {{mlp + "gate_proj.weight", {kRows, kColumns}},
                            {mlp + "up_proj.weight", {kRows, kColumns}}},
                           seed),
              expected)
        << seed;
}

TEST(SavedRows, OfHalvesThatAlternateInEachExpert) {
  constexpr std::int64_t kExperts = 3, kHalf = 5, kColumns = 4;
  const Floats expected = rows(kExperts * 2 * kHalf, kColumns, 10'000, [](std::int64_t i) {
    return i / (2 * kHalf) * 2 * kHalf + i % 2 * kHalf + i % (2 * kHalf) / 2;
  });
  for (unsigned seed = 0; seed < kSeeds; ++seed)
    EXPECT_EQ(saved_values(R"({"model_type": "inkling_mm_model"})",
                           {{"model.language_model.layers.0.mlp.experts.gate_up_proj",
                             {kExperts, 2 * kHalf, kColumns}}},
                           seed),
              expected)
        << seed;
}

TEST(SavedRows, OfQueriesThatAreTakenApart) {
  constexpr std::int64_t kCount = 5, kColumns = 6;
  for (unsigned seed = 0; seed < kSeeds; ++seed)
    for (const std::int64_t which : {0, 1}) {
      const Floats expected = rows(2 * kCount, kColumns, 10'000, [which](std::int64_t i) {
        constexpr std::int64_t kEntries[2][2] = {{0, 3}, {1, 2}};
        return i / 2 * 4 + kEntries[which][i % 2];
      });
      EXPECT_EQ(saved_values(R"({"model_type": "inkling2_loop_text"})",
                             {{"model.message_input.query", {kCount, 4, kColumns}}}, seed,
                             static_cast<std::size_t>(which)),
                expected)
          << seed << " " << which;
    }
}

TEST(SavedRows, OfExpertsThatAreTransposed) {
  constexpr std::int64_t kExperts = 3, kIn = 5, kOut = 7;
  Floats expected;
  for (std::int64_t e = 0; e < kExperts; ++e)
    for (std::int64_t j = 0; j < kOut; ++j)
      for (std::int64_t i = 0; i < kIn; ++i)
        expected.push_back(static_cast<float>((e * kIn + i) * kOut + j));
  for (unsigned seed = 0; seed < kSeeds; ++seed)
    EXPECT_EQ(saved_values(R"({"model_type": "nemo_speechlm"})",
                           {{"layers.0.mixer.experts.down_proj", {kExperts, kIn, kOut}}}, seed),
              expected)
        << seed;
}

TEST(SavedRows, ThatPartsShareUnevenly) {
  constexpr std::int64_t kRows = 11, kColumns = 6, kParts = 3, kShare = 4;
  for (unsigned seed = 0; seed < kSeeds; ++seed)
    for (std::int64_t part = 0; part < kParts; ++part) {
      const std::int64_t begin = part * kShare;
      EXPECT_EQ(saved_values(R"({"model_type": "qwen4_exp_text", "split_ngram_parts": 3})",
                             {{"model.ngram_embedding.weight", {kRows, kColumns}}}, seed,
                             static_cast<std::size_t>(part)),
                rows(std::min(kShare, kRows - begin), kColumns, 10'000,
                     [begin](std::int64_t i) { return begin + i; }))
          << seed << " " << part;
    }
}

}  // namespace
}  // namespace shardkit
