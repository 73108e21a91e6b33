// BoxLoader: boxes of a checkpoint's tensor, from its pieces into a tensor in memory.
#pragma once

#include <cstddef>
#include <memory>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/io/file_cache.h"
#include "shardkit/transfer/box_reader.h"

namespace shardkit::internal {

/// For one thread. Memory: some MiB, taken when first needed.
class BoxLoader {
 public:
  /// @param files  outlives this
  explicit BoxLoader(FileCache& files) : reader_(files, kScratchBytes) {}

  /// Reads a box, cast to the local tensor's dtype.
  ///
  /// REQUIRES: prove_whole(tensor).ok(), accumulator_dtype() of its reduction if it has one; dtypes
  /// that are equal or castable floats; `local` in memory.
  /// @error as BoxReader::read
  Status load(const CatalogTensor& tensor, const BoxPair& box, const Tensor& local);

 private:
  static constexpr std::size_t kScratchBytes = 1 << 20;
  static constexpr std::int64_t kTileElements = 1 << 16;

  /// Reads a global box of one addend; its element (i0, i1, ...) goes to sum(i_d * strides[d]).
  Status read_addend(const CatalogTensor& tensor, std::int32_t addend, const Box& box,
                     std::byte* target, const Dims& strides);
  /// Reads, reduces and casts a box of at most kTileElements into dense memory.
  Status read_tile(const CatalogTensor& tensor, const Box& box, DType dtype, std::byte* target);

  BoxReader reader_;
  std::unique_ptr<std::byte[]> source_;
  std::unique_ptr<std::byte[]> sums_;
  std::unique_ptr<std::byte[]> tile_;
};

}  // namespace shardkit::internal
