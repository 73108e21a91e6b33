#include "shardkit/compare/catalog_of.h"

#include <string>
#include <utility>

namespace shardkit {
namespace {

Status check_whole(const Value& value) {
  if (value.get_if<DTensor>() || value.get_if<ShardedTensor>())
    return Error(ErrorCode::kInvalidArgument,
                 "a reference holds whole tensors; of a sharded checkpoint give the folder")
        .found(kind_name(value));
  const auto* tensor = value.get_if<Tensor>();
  if (tensor == nullptr) return {};
  if (tensor->storage && tensor->storage->is_meta())
    return Error(ErrorCode::kInvalidArgument, "a tensor of the reference has no bytes (meta)");
  return check_view(*tensor);
}

CatalogTensor whole_tensor(const std::string& name, const Tensor& tensor) {
  CatalogTensor result;
  result.name = name;
  result.dtype = tensor.dtype;
  result.shape = tensor.shape;
  Piece piece;
  piece.box = whole(tensor.shape);
  piece.strides = tensor.strides;
  piece.offset = tensor.offset;
  piece.storage = tensor.storage;
  if (!piece.box.empty()) result.pieces = {std::move(piece)};
  return result;
}

}  // namespace

Result<Catalog> catalog_of(const Dict& tensors) {
  Catalog catalog;
  catalog.world_size = 1;
  for (const auto& [key, value] : tensors.items) {
    const auto* name = key.get_if<std::string>();
    if (name == nullptr) {
      catalog.skipped.push_back({"a key that is no text", std::string(kind_name(value))});
      continue;
    }
    if (Status status = check_whole(value); !status.ok())
      return std::move(status).error().of_tensor(*name);
    if (const auto* tensor = value.get_if<Tensor>()) {
      catalog.tensors.push_back(whole_tensor(*name, *tensor));
    } else {
      catalog.skipped.push_back({*name, std::string(kind_name(value))});
    }
  }
  return catalog;
}

}  // namespace shardkit
