// BoxReader: the elements of a strided box, from wherever their storage is, into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "shardkit/base/dims.h"
#include "shardkit/base/result.h"
#include "shardkit/io/file_cache.h"
#include "shardkit/tensor/storage.h"

namespace shardkit {

/// A strided box of a storage. All numbers in elements but `item_bytes`.
struct StridedSource {
  const Storage* storage = nullptr;
  std::int64_t offset = 0;  ///< of the box's first element
  Dims strides;
};

/// Reads with pread alone: a file that shrinks is an error, not a signal. For one thread.
class BoxReader {
 public:
  /// @param files          shared by all readers; outlives this
  /// @param scratch_bytes  memory for spans that hold more than the box; allocated at first use
  BoxReader(FileCache& files, std::size_t scratch_bytes)
      : files_(files), scratch_bytes_(scratch_bytes) {}

  /// Copies the box into `target`, whose element (i0, i1, ...) lies at sum(i_d *
  /// target_strides[d]).
  ///
  /// A run of bytes that is contiguous on both sides is read straight into place. A box whose
  /// elements lie close together is read as one span and spread out from the scratch memory; one
  /// that is spread wide is cut in halves until its parts are either.
  ///
  /// REQUIRES: every element lies in its storage (proven by the plan).
  /// @error as FileCache::open and RandomAccessFile::read_at
  Status read(const StridedSource& source, std::int64_t item_bytes, const Dims& shape,
              std::byte* target, const Dims& target_strides);

 private:
  struct Request;

  Status read_file(const Request& request);
  Status read_span(const Request& request, std::int64_t span_elements);
  Status read_bytes(const Storage& storage, std::int64_t offset_bytes, std::byte* target,
                    std::size_t bytes);

  FileCache& files_;
  const std::size_t scratch_bytes_;
  std::unique_ptr<std::byte[]> scratch_;
  // The file read last: most reads follow one in the same file, and need not ask the cache.
  std::string open_path_;
  std::shared_ptr<const RandomAccessFile> open_file_;
};

}  // namespace shardkit
