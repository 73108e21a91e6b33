#include "shardkit/plan/plan.h"

#include <fmt/format.h>

#include "shardkit/base/checked_math.h"
#include "shardkit/layout/tiling.h"

namespace shardkit {
namespace {

Status prove_in_storage(const CatalogTensor& tensor, const Piece& piece) {
  Tensor view;
  view.dtype = tensor.dtype;
  view.shape = piece.box.shape;
  view.strides = piece.strides;
  view.offset = piece.offset;
  view.storage = piece.storage;
  return check_view(view);
}

Status prove_arithmetic(const CatalogTensor& tensor, DType written) {
  const bool cast = written != tensor.dtype;
  if (cast && !(is_castable_float(tensor.dtype) && is_castable_float(written)))
    return Error(ErrorCode::kUnsupported, "no cast between these dtypes")
        .expected(torch_name(written))
        .found(torch_name(tensor.dtype));
  if (tensor.reduction) SHARDKIT_TRY(accumulator_dtype(*tensor.reduction, tensor.dtype));
  return {};
}

std::uint64_t unsigned_bytes(std::int64_t bytes) { return static_cast<std::uint64_t>(bytes); }

/// Heads and tensors follow each other without gap or overlap, up to the file's end.
Status prove_file(const Catalog& catalog, const PlannedFile& file) {
  std::uint64_t at = file.head.size();
  for (const PlannedTensor& step : file.tensors) {
    if (step.tensor >= catalog.tensors.size() || step.offset != at)
      return Error(ErrorCode::kInternal, "the tensors of an output file do not follow each other")
          .in_file(file.name)
          .at_offset(at);
    const auto bytes = checked_mul(catalog.tensors[step.tensor].numel(), item_bytes(step.dtype));
    const auto end = bytes ? checked_add(at, unsigned_bytes(*bytes)) : std::nullopt;
    if (!end)
      return Error(ErrorCode::kLimit, "an output file is larger than any file can be")
          .in_file(file.name);
    at = *end;
  }
  if (at != file.bytes)
    return Error(ErrorCode::kInternal, "an output file's size is not that of its parts")
        .in_file(file.name)
        .expected(std::to_string(at))
        .found(std::to_string(file.bytes));
  return {};
}

std::vector<std::shared_ptr<const CatalogTensor>> parts_of(const Fold& fold) {
  std::vector<std::shared_ptr<const CatalogTensor>> parts = {fold.a, fold.b};
  if (fold.magnitude) parts.push_back(fold.magnitude);
  return parts;
}

Status prove_fold(const CatalogTensor& tensor, const Fold& fold) {
  for (const auto& part : parts_of(fold)) {
    if (part->fold)
      return Error(ErrorCode::kInternal, "an adapter's factor has an adapter itself")
          .of_tensor(part->name);
    SHARDKIT_TRY(prove_whole(*part));
    if (Status status = prove_arithmetic(*part, fold_dtype(tensor.dtype)); !status.ok())
      return std::move(status).error().of_tensor(part->name);
  }
  SHARDKIT_TRY(fold_shape(tensor, fold));
  return {};
}

}  // namespace

Status prove_whole(const CatalogTensor& tensor) {
  const auto elements = element_count(tensor.shape);
  if (!elements)
    return Error(ErrorCode::kCorrupt, "a size is negative, or the shape has too many elements")
        .of_tensor(tensor.name)
        .found(to_string(tensor.shape));
  auto piece = tensor.pieces.begin();
  for (std::int32_t replica = 0; replica < tensor.replicas; ++replica) {
    for (std::int32_t addend = 0; addend < tensor.addends; ++addend) {
      std::vector<Box> layer;
      for (; piece != tensor.pieces.end() && piece->replica == replica && piece->addend == addend;
           ++piece) {
        if (Status status = prove_in_storage(tensor, *piece); !status.ok())
          return std::move(status).error().of_tensor(tensor.name);
        layer.push_back(piece->box);
      }
      if (Status status = check_tiling(tensor.shape, std::move(layer)); !status.ok())
        return std::move(status).error().of_tensor(tensor.name);
    }
  }
  if (piece != tensor.pieces.end())
    return Error(ErrorCode::kInternal, "a piece belongs to no layer").of_tensor(tensor.name);
  return tensor.fold ? prove_fold(tensor, *tensor.fold) : Status();
}

void Plan::count_reads(const CatalogTensor& tensor) {
  const bool compare = replicas_ == ReplicaPolicy::kCompare;
  const auto copies = static_cast<std::uint64_t>(compare ? tensor.replicas : 1);
  summary_.compared_replicas += copies - 1;
  summary_.read_bytes +=
      copies * static_cast<std::uint64_t>(tensor.addends) * unsigned_bytes(tensor.bytes());
  for (const Piece& piece : tensor.pieces) summary_.pieces += compare || piece.replica == 0;
  if (!tensor.fold) return;
  summary_.folds += 1;
  for (const auto& part : parts_of(*tensor.fold)) count_reads(*part);
}

Result<Plan> Plan::make(std::shared_ptr<const Catalog> catalog, std::vector<PlannedFile> files,
                        ReplicaPolicy replicas) {
  Plan plan;
  plan.replicas_ = replicas;
  for (const PlannedFile& file : files) {
    SHARDKIT_TRY(prove_file(*catalog, file));
    plan.summary_.write_bytes += file.bytes;
    for (const PlannedTensor& step : file.tensors) {
      const CatalogTensor& tensor = catalog->tensors[step.tensor];
      SHARDKIT_TRY(prove_whole(tensor));
      if (Status status = prove_arithmetic(tensor, step.dtype); !status.ok())
        return std::move(status).error().of_tensor(tensor.name);
      plan.summary_.tensors += 1;
      plan.summary_.casts += step.dtype != tensor.dtype ? 1 : 0;
      plan.count_reads(tensor);
    }
  }
  plan.catalog_ = std::move(catalog);
  plan.files_ = std::move(files);
  return plan;
}

}  // namespace shardkit
