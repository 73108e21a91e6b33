// Fold: a low-rank update of a tensor, as LoRA leaves it in a checkpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "shardkit/base/result.h"
#include "shardkit/tensor/dtype.h"

namespace shardkit {

struct CatalogTensor;  // catalog.h

/// A tensor with a fold is W + scale * B A where it only holds W.
///
/// W is taken as a matrix of its first dimension by the others together (a convolution's LoRA is of
/// that form). `transposed` tells that W is stored as in x out, as an embedding or transformers'
/// Conv1D is: (B A)^T is added then.
///
/// Experts that are held in one tensor have each a B A of their own, whose factors lie side by side
/// (peft 0.21, tuners/lora/layer.py, ParamWrapper): rows [e * rank, (e + 1) * rank) of A, and
/// columns e, e + experts, e + 2 * experts, ... of B are those of expert e.
struct Fold {
  std::shared_ptr<const CatalogTensor> a;  ///< rank x in; of experts (experts * rank) x in
  std::shared_ptr<const CatalogTensor> b;  ///< out x rank; of experts out x (rank * experts)
  double scale = 1;
  bool transposed = false;
  /// DoRA: `out` magnitudes m; row i of the sum is multiplied by m_i and divided by its norm. Null:
  /// plain LoRA.
  std::shared_ptr<const CatalogTensor> magnitude;
  std::int64_t experts = 0;            ///< 0: W is one matrix
  std::optional<std::int64_t> expert;  ///< the one that W is of; none: all, on W's first dimension
  /// Where W's rows begin in the matrix that it is cut from; none: W is the whole.
  std::optional<std::int64_t> first_row;
};

/// The sizes of W (rows x columns; of experts each), and of what is between B and A, in elements.
struct FoldShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t rank = 0;
  std::int64_t uncut_rows = 0;  ///< of the matrix that W is cut from
};

/// The sizes of a fold, if its parts fit the tensor and are floats that can be added up.
///
/// @error kIncomplete  shapes that do not fit
/// @error kUnsupported a dtype without arithmetic, a rank above 65,536, or a DoRA of a transposed
///                     or no two-dimensional tensor, or of experts
Result<FoldShape> fold_shape(const CatalogTensor& tensor, const Fold& fold);

/// The type in which a tensor is folded: float64 for float64, float32 for the other floats.
DType fold_dtype(DType stored);

}  // namespace shardkit
