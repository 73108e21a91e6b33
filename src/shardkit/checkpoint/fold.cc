// Whether the parts of a fold fit each other.
#include "shardkit/checkpoint/fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "shardkit/base/checked_math.h"
#include "shardkit/checkpoint/catalog.h"

namespace shardkit {
namespace {

constexpr std::int64_t kMostRank = 65536;

/// A tensor as a matrix: its first dimension by all the others.
struct Matrix {
  std::int64_t rows;
  std::int64_t columns;
};

Dims beyond_first(const Dims& shape) { return Dims(std::span(shape.begin() + 1, shape.end())); }

std::optional<Matrix> matrix_of(const Dims& shape) {
  if (shape.size() < 2) return std::nullopt;
  const auto columns = element_count(beyond_first(shape));
  if (!columns) return std::nullopt;
  return Matrix{shape[0], *columns};
}

/// The shape of W, or of the part of each expert.
Dims folded_shape(const CatalogTensor& tensor, const Fold& fold) {
  const bool stacked = fold.experts > 0 && !fold.expert;
  if (!stacked) return tensor.shape;
  return tensor.shape.size() == 3 && tensor.shape[0] == fold.experts ? beyond_first(tensor.shape)
                                                                     : Dims();
}

Status check_dtype(const CatalogTensor& tensor) {
  if (is_castable_float(tensor.dtype)) return {};
  return Error(ErrorCode::kUnsupported, "LoRA of a dtype that is not folded")
      .of_tensor(tensor.name)
      .expected("float64, float32, float16 or bfloat16")
      .found(torch_name(tensor.dtype));
}

}  // namespace

DType fold_dtype(DType stored) {
  return stored == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

Result<FoldShape> fold_shape(const CatalogTensor& tensor, const Fold& fold) {
  const CatalogTensor& a = *fold.a;
  const CatalogTensor& b = *fold.b;
  for (const CatalogTensor* part : {&tensor, &a, &b}) SHARDKIT_TRY(check_dtype(*part));
  const Dims own = folded_shape(tensor, fold);
  const auto w = matrix_of(own), in = matrix_of(a.shape), out = matrix_of(b.shape);
  const std::int64_t experts = std::max<std::int64_t>(fold.experts, 1);
  bool fits = w && in && out && in->rows > 0 && in->rows == out->columns &&
              in->rows % experts == 0 && fold.expert.value_or(0) < experts;
  if (fits) {
    const std::int64_t uncut = fold.transposed ? in->columns : out->rows;
    const bool columns_fit = fold.transposed ? own.size() == 2 && w->columns == out->rows
                                             : beyond_first(own) == beyond_first(a.shape);
    fits = columns_fit && (fold.first_row ? w->rows <= uncut && *fold.first_row <= uncut - w->rows
                                          : w->rows == uncut);
  }
  if (!fits)
    return Error(ErrorCode::kIncomplete, "lora_A and lora_B do not fit the weight")
        .of_tensor(tensor.name)
        .found(fmt::format("weight {}, A {}, B {}{}", to_string(tensor.shape), to_string(a.shape),
                           to_string(b.shape), fold.transposed ? ", transposed" : ""));
  const FoldShape shape{w->rows, w->columns, in->rows / experts,
                        fold.transposed ? in->columns : out->rows};
  if (shape.rank > kMostRank)
    return Error(ErrorCode::kUnsupported, "the rank of LoRA is too high")
        .of_tensor(tensor.name)
        .expected(fmt::format("at most {}", kMostRank))
        .found(std::to_string(shape.rank));
  if (!fold.magnitude) return shape;
  const CatalogTensor& magnitude = *fold.magnitude;
  SHARDKIT_TRY(check_dtype(magnitude));
  if (fold.transposed || own.size() != 2 || fold.experts > 0)
    return Error(ErrorCode::kUnsupported,
                 "DoRA of an embedding, a convolution, experts or a "
                 "transposed weight is not folded")
        .of_tensor(tensor.name);
  if (magnitude.shape != Dims{shape.uncut_rows})
    return Error(ErrorCode::kIncomplete, "DoRA's magnitudes are not one for each row of the weight")
        .of_tensor(magnitude.name)
        .expected(to_string(Dims{shape.uncut_rows}))
        .found(to_string(magnitude.shape));
  return shape;
}

}  // namespace shardkit
