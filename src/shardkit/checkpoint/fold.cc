// Whether the parts of a fold fit each other.
#include "shardkit/checkpoint/fold.h"

#include <fmt/format.h>

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

Dims beyond_first(const CatalogTensor& tensor) {
  return Dims(std::span(tensor.shape.begin() + 1, tensor.shape.end()));
}

std::optional<Matrix> matrix_of(const CatalogTensor& tensor) {
  if (tensor.shape.size() < 2) return std::nullopt;
  const auto columns = element_count(beyond_first(tensor));
  if (!columns) return std::nullopt;
  return Matrix{tensor.shape[0], *columns};
}

Status check_dtype(const CatalogTensor& tensor) {
  if (is_castable_float(tensor.dtype)) return {};
  return Error(ErrorCode::kUnsupported, "LoRA of a dtype without arithmetic")
      .of_tensor(tensor.name)
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
  const auto w = matrix_of(tensor), in = matrix_of(a), out = matrix_of(b);
  const bool flat = tensor.shape.size() == 2;
  const bool fits = w && in && out && in->rows > 0 && in->rows == out->columns &&
                    (fold.transposed ? flat && w->rows == in->columns && w->columns == out->rows
                                     : w->rows == out->rows && beyond_first(tensor) == beyond_first(a));
  if (!fits)
    return Error(ErrorCode::kIncomplete, "lora_A and lora_B do not fit the weight")
        .of_tensor(tensor.name)
        .found(fmt::format("weight {}, A {}, B {}{}", to_string(tensor.shape), to_string(a.shape),
                           to_string(b.shape), fold.transposed ? ", transposed" : ""));
  const FoldShape shape{w->rows, w->columns, in->rows};
  if (shape.rank > kMostRank)
    return Error(ErrorCode::kUnsupported, "LoRA of so high a rank")
        .of_tensor(tensor.name)
        .found(std::to_string(shape.rank));
  if (!fold.magnitude) return shape;
  const CatalogTensor& magnitude = *fold.magnitude;
  SHARDKIT_TRY(check_dtype(magnitude));
  if (fold.transposed || !flat)
    return Error(ErrorCode::kUnsupported,
                 "DoRA of an embedding, a convolution or a transposed weight")
        .of_tensor(tensor.name);
  if (magnitude.shape != Dims{shape.rows})
    return Error(ErrorCode::kIncomplete, "the magnitudes of DoRA do not fit the weight")
        .of_tensor(magnitude.name)
        .expected(to_string(Dims{shape.rows}))
        .found(to_string(magnitude.shape));
  return shape;
}

}  // namespace shardkit
