// Folds low-rank updates into ranges of tensors.
#include "shardkit/transfer/fold_reader.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "shardkit/tensor/low_rank.h"

namespace shardkit {
namespace {

/// Of left_ and of sums_: small enough for the processor's cache.
constexpr std::size_t kBufferBytes = 1 << 20;

template <class T>
constexpr DType kDType = std::is_same_v<T, double> ? DType::kFloat64 : DType::kFloat32;

template <class T>
constexpr std::int64_t kBufferElements = static_cast<std::int64_t>(kBufferBytes / sizeof(T));

template <class T>
T* elements(std::unique_ptr<std::byte[]>& buffer) {
  if (!buffer) buffer = std::make_unique_for_overwrite<std::byte[]>(kBufferBytes);
  return reinterpret_cast<T*>(buffer.get());
}

}  // namespace

std::uint64_t FoldReader::bytes_needed(const Plan& plan) {
  std::uint64_t most = 0;
  for (const PlannedFile& file : plan.files()) {
    for (const PlannedTensor& step : file.tensors) {
      const CatalogTensor& tensor = plan.catalog().tensors[step.tensor];
      if (!tensor.fold) continue;
      const Fold& fold = *tensor.fold;
      std::int64_t bytes = (fold.transposed ? fold.b : fold.a)->numel() /
                           std::max<std::int64_t>(fold.experts, 1) *
                           item_bytes(fold_dtype(tensor.dtype));
      if (fold.magnitude)  // and the factors of rows
        bytes += 2 * fold.magnitude->numel() * item_bytes(DType::kFloat64);
      most = std::max(most, static_cast<std::uint64_t>(bytes) + 2 * kBufferBytes);
    }
  }
  return most;
}

Status FoldReader::read(const PieceIndex& base, std::int64_t begin, std::int64_t end, DType dtype,
                        ReplicaPolicy replicas, std::byte* target) {
  replicas_ = replicas;
  return fold_dtype(base.tensor().dtype) == DType::kFloat64
             ? read_as<double>(base, begin, end, dtype, target)
             : read_as<float>(base, begin, end, dtype, target);
}

/// Rows [first_row, last_row) of B, of its columns those of the expert: element (i, k) comes to
/// target[(i - first_row) * row_stride + k * rank_stride]. Uses sums_.
template <class T>
Status FoldReader::read_b(const PieceIndex& pieces, std::int64_t first_row, std::int64_t last_row,
                          T* target, std::int64_t row_stride, std::int64_t rank_stride) {
  const T* const part = elements<T>(sums_);
  const std::int64_t width = shape_.rank * experts_;
  for (std::int64_t at = first_row * width; at < last_row * width;) {
    const std::int64_t end = std::min(at + kBufferElements<T>, last_row * width);
    SHARDKIT_TRY(reader_.read(pieces, at, end, kDType<T>, replicas_, sums_.get()));
    const std::int64_t others = (expert_ - at % experts_ + experts_) % experts_;
    for (std::int64_t i = at + others; i < end; i += experts_)
      target[(i / width - first_row) * row_stride + i % width / experts_ * rank_stride] =
          part[i - at];
    at = end;
  }
  return {};
}

template <class T>
Status FoldReader::open(const CatalogTensor& tensor, std::int64_t expert) {
  if (open_ == tensor.fold && expert_ == expert) return {};
  open_ = nullptr;
  const Fold& fold = *tensor.fold;
  SHARDKIT_ASSIGN(shape_, fold_shape(tensor, fold));
  experts_ = std::max<std::int64_t>(fold.experts, 1);
  expert_ = expert;
  left_pieces_.emplace(fold.transposed ? *fold.a : *fold.b);
  const PieceIndex pieces(fold.transposed ? *fold.b : *fold.a);
  const std::int64_t count = shape_.rank * shape_.columns;
  right_.resize(static_cast<std::size_t>(count) * sizeof(T));
  if (fold.transposed) {
    T* const right = reinterpret_cast<T*>(right_.data());
    SHARDKIT_TRY(read_b(pieces, 0, shape_.columns, right, 1, shape_.columns));
  } else {
    SHARDKIT_TRY(reader_.read(pieces, expert * count, (expert + 1) * count, kDType<T>, replicas_,
                              right_.data()));
  }
  magnitudes_.clear();
  if (fold.magnitude) {
    magnitudes_.resize(static_cast<std::size_t>(shape_.rows));
    const std::int64_t first = fold.first_row.value_or(0);
    SHARDKIT_TRY(reader_.read(PieceIndex(*fold.magnitude), first, first + shape_.rows,
                              DType::kFloat64, replicas_,
                              reinterpret_cast<std::byte*>(magnitudes_.data())));
  }
  open_ = tensor.fold;
  return {};
}

/// Rows [first_row, last_row) of the left factor, which fit the buffer.
template <class T>
Status FoldReader::read_left(std::int64_t first_row, std::int64_t last_row) {
  const std::int64_t rank = shape_.rank;
  const std::int64_t cut = open_->first_row.value_or(0);
  T* const left = elements<T>(left_);
  first_left_row_ = first_row;
  if (!open_->transposed && experts_ > 1)
    return read_b(*left_pieces_, cut + first_row, cut + last_row, left, rank, 1);
  if (!open_->transposed)
    return reader_.read(*left_pieces_, (cut + first_row) * rank, (cut + last_row) * rank, kDType<T>,
                        replicas_, left_.get());
  T* const row = elements<T>(sums_);  // stored as rank x rows
  for (std::int64_t k = 0; k < rank; ++k) {
    const std::int64_t at = (expert_ * rank + k) * shape_.uncut_rows + cut;
    SHARDKIT_TRY(reader_.read(*left_pieces_, at + first_row, at + last_row, kDType<T>, replicas_,
                              sums_.get()));
    for (std::int64_t i = 0; i < last_row - first_row; ++i) left[i * rank + k] = row[i];
  }
  return {};
}

/// Elements [begin, end) of the matrix's W + scale * B A into sums_, of rows that are in left_.
template <class T>
Status FoldReader::read_sums(const PieceIndex& base, std::int64_t begin, std::int64_t end) {
  T* const sums = elements<T>(sums_);
  SHARDKIT_TRY(reader_.read_unfolded(base, base_begin_ + begin, base_begin_ + end, kDType<T>,
                                     replicas_, sums_.get()));
  const std::int64_t columns = shape_.columns;
  LowRankUpdate<T> update;
  update.rank = shape_.rank;
  update.right_stride = columns;
  update.scale = static_cast<T>(open_->scale);
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t row = at / columns;
    const std::int64_t column = at % columns;
    update.left = elements<T>(left_) + (row - first_left_row_) * shape_.rank;
    update.right = reinterpret_cast<const T*>(right_.data()) + column;
    const std::int64_t width = std::min(columns - column, end - at);
    const std::int64_t rows = column == 0 && width == columns ? (end - at) / columns : 1;
    add_low_rank(update, rows, width, sums + (at - begin), columns);
    at += rows * width;
  }
  return {};
}

/// DoRA: magnitude / norm for the rows in left_. Norms are of whole rows, element after element.
template <class T>
Status FoldReader::find_row_factors(const PieceIndex& base, std::int64_t last_row) {
  std::vector<double>& factors = row_factors_;
  factors.assign(static_cast<std::size_t>(last_row - first_left_row_), 0);
  const std::int64_t columns = shape_.columns;
  const auto row_of = [&](std::int64_t at) {
    return static_cast<std::size_t>(at / columns - first_left_row_);
  };
  for (std::int64_t at = first_left_row_ * columns; at < last_row * columns;) {
    const std::int64_t end = std::min(at + kBufferElements<T>, last_row * columns);
    SHARDKIT_TRY(read_sums<T>(base, at, end));
    const T* const sums = elements<T>(sums_);
    for (std::int64_t i = at; i < end; ++i)
      factors[row_of(i)] += static_cast<double>(sums[i - at]) * static_cast<double>(sums[i - at]);
    at = end;
  }
  for (std::size_t i = 0; i < factors.size(); ++i)
    factors[i] = magnitudes_[static_cast<std::size_t>(first_left_row_) + i] / std::sqrt(factors[i]);
  return {};
}

template <class T>
Status FoldReader::read_as(const PieceIndex& base, std::int64_t begin, std::int64_t end,
                           DType dtype, std::byte* target) {
  const Fold& fold = *base.tensor().fold;
  const bool stacked = fold.experts > 0 && !fold.expert;
  const std::int64_t each = stacked ? base.tensor().numel() / fold.experts : base.tensor().numel();
  while (begin < end) {
    const std::int64_t matrix = begin / each;
    const std::int64_t stop = std::min((matrix + 1) * each, end);
    SHARDKIT_TRY(open<T>(base.tensor(), stacked ? matrix : fold.expert.value_or(0)));
    base_begin_ = matrix * each;
    SHARDKIT_TRY(read_matrix<T>(base, begin - base_begin_, stop - base_begin_, dtype, target));
    target += (stop - begin) * item_bytes(dtype);
    begin = stop;
  }
  return {};
}

/// Elements [begin, end) of the matrix that is open.
template <class T>
Status FoldReader::read_matrix(const PieceIndex& base, std::int64_t begin, std::int64_t end,
                               DType dtype, std::byte* target) {
  const std::int64_t columns = shape_.columns;
  const std::int64_t most_rows =
      std::max<std::int64_t>(1, kBufferElements<T> / std::max<std::int64_t>(1, shape_.rank));
  while (begin < end) {
    const std::int64_t first_row = begin / columns;
    std::int64_t stop = std::min(begin + kBufferElements<T>, end);
    if ((stop - 1) / columns - first_row >= most_rows) stop = (first_row + most_rows) * columns;
    const std::int64_t last_row = (stop - 1) / columns + 1;
    SHARDKIT_TRY(read_left<T>(first_row, last_row));
    if (open_->magnitude) SHARDKIT_TRY(find_row_factors<T>(base, last_row));
    SHARDKIT_TRY(read_sums<T>(base, begin, stop));
    if (open_->magnitude) {
      T* const sums = elements<T>(sums_);
      for (std::int64_t at = begin; at < stop; ++at)
        sums[at - begin] *=
            static_cast<T>(row_factors_[static_cast<std::size_t>(at / columns - first_row)]);
    }
    const auto count = static_cast<std::size_t>(stop - begin);
    const auto bytes = count * static_cast<std::size_t>(item_bytes(dtype));
    reader_.cast(kDType<T>, {sums_.get(), count * sizeof(T)}, dtype, {target, bytes});
    target += bytes;
    begin = stop;
  }
  return {};
}

}  // namespace shardkit
