// add_low_rank, on Eigen. CMakeLists.txt compiles this file without fused multiply-add.
#include "shardkit/tensor/low_rank.h"

#include <Eigen/Core>
#include <algorithm>

namespace shardkit {
namespace {

// Sums of so many columns stay in registers; a panel of `right` stays in the first-level cache
// while all rows pass by.
constexpr int kTile = 32;
constexpr std::int64_t kPanel = 8 * kTile;

/// A tile of one row. Columns is the number, or Eigen::Dynamic for up to kTile.
template <class T, int Columns>
void add_tile(const LowRankUpdate<T>& update, const T* left, const T* right, Eigen::Index columns,
              T* target) {
  using Sums = Eigen::Array<T, 1, Columns, Eigen::RowMajor, 1, kTile>;
  Sums sums = Sums::Zero(columns);
  for (std::int64_t k = 0; k < update.rank; ++k)
    sums += left[k] * Eigen::Map<const Sums>(right + k * update.right_stride, columns);
  Eigen::Map<Sums>(target, columns) += update.scale * sums;
}

}  // namespace

template <class T>
void add_low_rank(const LowRankUpdate<T>& update, std::int64_t rows, std::int64_t columns,
                  T* target, std::int64_t target_stride) {
  for (std::int64_t panel = 0; panel < columns; panel += kPanel) {
    const std::int64_t panel_end = std::min(panel + kPanel, columns);
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* const left = update.left + row * update.rank;
      T* const out = target + row * target_stride;
      std::int64_t column = panel;
      for (; column + kTile <= panel_end; column += kTile)
        add_tile<T, kTile>(update, left, update.right + column, kTile, out + column);
      if (column < panel_end)
        add_tile<T, Eigen::Dynamic>(update, left, update.right + column, panel_end - column,
                                    out + column);
    }
  }
}

template void add_low_rank(const LowRankUpdate<float>&, std::int64_t, std::int64_t, float*,
                           std::int64_t);
template void add_low_rank(const LowRankUpdate<double>&, std::int64_t, std::int64_t, double*,
                           std::int64_t);

}  // namespace shardkit
