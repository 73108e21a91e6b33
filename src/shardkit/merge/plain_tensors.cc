#include "shardkit/merge/plain_tensors.h"

#include <algorithm>

#include "shardkit/hf/implied_shapes.h"
#include "shardkit/io/file_cache.h"
#include "shardkit/plan/plan.h"
#include "shardkit/transfer/range_reader.h"

namespace shardkit {
namespace {

Error ambiguous(std::string what, const CatalogTensor& tensor) {
  return Error(ErrorCode::kIncomplete,
               std::move(what) + "; --plain-tensors replicate or concat decides")
      .of_tensor(tensor.name);
}

/// One rank's chunk as a tensor of its own.
CatalogTensor chunk_of(const CatalogTensor& tensor, const Piece& piece) {
  CatalogTensor chunk;
  chunk.name = tensor.name;
  chunk.dtype = tensor.dtype;
  chunk.shape = piece.box.shape;
  chunk.pieces = {piece};
  chunk.pieces[0].box = whole(chunk.shape);
  return chunk;
}

/// Whether all ranks hold the same bytes.
Result<bool> all_equal(RangeReader& reader, const CatalogTensor& tensor, std::int64_t world_size) {
  // A rank with an empty chunk has no piece, and differs from those that have one.
  if (static_cast<std::int64_t>(tensor.pieces.size()) != world_size) return tensor.pieces.empty();
  const CatalogTensor first = chunk_of(tensor, tensor.pieces[0]);
  for (const Piece& piece : tensor.pieces) {
    const CatalogTensor other = chunk_of(tensor, piece);
    if (other.shape != first.shape) return false;
    SHARDKIT_ASSIGN(const auto difference, first_difference(reader, first, other));
    if (difference) return false;
  }
  return true;
}

}  // namespace

Status check_concatenated(FileSystem& fs, const MergeSource& source,
                          std::span<const CatalogTensor> tensors) {
  FileCache files(fs, 16);
  RangeReader reader(files, 4 << 20);
  for (const CatalogTensor& tensor : tensors) {
    if (!tensor.guessed) continue;
    SHARDKIT_TRY(prove_whole(tensor));
    if (source.config) {
      const auto implied = hf::implied_shape(*source.config, tensor.name);
      if (implied && *implied != tensor.shape)
        return ambiguous(
                   "joined on dimension 0, the ranks' plain tensors are not of the shape "
                   "that config.json implies",
                   tensor)
            .expected(to_string(*implied))
            .found(to_string(tensor.shape));
    }
    SHARDKIT_ASSIGN(const bool equal, all_equal(reader, tensor, source.catalog->world_size));
    if (equal) return ambiguous("all ranks hold the same plain tensor: chunks or replicas", tensor);
  }
  return {};
}

}  // namespace shardkit
