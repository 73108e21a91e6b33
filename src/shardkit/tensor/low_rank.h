// add_low_rank: the product of two thin matrices, scaled and added to a third.
#pragma once

#include <cstdint>

namespace shardkit {

/// Matrices of one low-rank update, row-major; all numbers in elements.
template <class T>
struct LowRankUpdate {
  const T* left = nullptr;   ///< rows x rank, dense
  const T* right = nullptr;  ///< rank x columns; its rows lie `right_stride` apart
  std::int64_t rank = 0;
  std::int64_t right_stride = 0;
  T scale = 1;
};

/// target[i][j] += scale * sum over k of left[i][k] * right[k][j]
///
/// Each element is computed alone and in one order: the products are added up from k = 0 on, each
/// product and sum rounded by itself (never fused), then scaled, then added. So the result depends
/// neither on how a matrix is cut into calls nor on the processor.
///
/// T is float or double. The matrices do not overlap.
/// @param target  rows x columns; its rows lie `target_stride` elements apart
template <class T>
void add_low_rank(const LowRankUpdate<T>& update, std::int64_t rows, std::int64_t columns,
                  T* target, std::int64_t target_stride);

}  // namespace shardkit
