#include "shardkit/inspect/value_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "shardkit/base/hash.h"

namespace shardkit {
namespace {

std::string key_text(const Value& key) {
  if (const auto* text = key.get_if<std::string>()) return *text;
  if (const auto* number = key.get_if<std::int64_t>()) return std::to_string(*number);
  return fmt::format("<{}>", kind_name(key));
}

class RowCollector {
 public:
  explicit RowCollector(Inspection& inspection) : inspection_(inspection) {}

  // As deep as the tree, whose depth its reader bounds.
  void visit(const std::string& path, const Value& value) {
    if (const auto* tensor = value.get_if<Tensor>()) {
      add(path, "Tensor", *tensor, tensor->shape,
          tensor->storage->is_meta() ? "meta: no bytes" : std::string());
    } else if (const auto* dtensor = value.get_if<DTensor>()) {
      add_dtensor(path, *dtensor);
    } else if (const auto* sharded = value.get_if<ShardedTensor>()) {
      add_sharded(path, *sharded);
    } else if (const auto* dict = value.get_if<Dict>()) {
      if (dict->items.empty()) skip(path, value);
      for (const auto& [key, item] : dict->items) visit(below(path, key_text(key)), item);
    } else if (const auto* list = value.get_if<List>()) {
      visit_items(path, value, list->items);
    } else if (const auto* tuple = value.get_if<Tuple>()) {
      visit_items(path, value, tuple->items);
    } else if (const auto* opaque = value.get_if<Opaque>()) {
      inspection_.skipped.push_back(fmt::format("{} ({})", path, opaque->class_name));
    } else {
      skip(path, value);
    }
  }

 private:
  static std::string below(const std::string& path, const std::string& key) {
    return path.empty() ? key : path + "." + key;
  }

  void skip(const std::string& path, const Value& value) {
    inspection_.skipped.push_back(fmt::format("{} ({})", path, kind_name(value)));
  }

  void visit_items(const std::string& path, const Value& value, const std::vector<Value>& items) {
    // A list of numbers (a random generator's state has hundreds) is one entry, not one each.
    const bool nested = std::any_of(items.begin(), items.end(), [](const Value& item) {
      return item.get_if<Dict>() || item.get_if<List>() || item.get_if<Tuple>() || is_tensor(item);
    });
    if (!nested) return skip(path, value);
    for (std::size_t i = 0; i < items.size(); ++i) visit(below(path, std::to_string(i)), items[i]);
  }

  void add(const std::string& path, std::string kind, const Tensor& view, const Dims& shape,
           std::string layout) {
    TensorRow row;
    row.name = path;
    row.kind = std::move(kind);
    row.dtype = torch_name(view.dtype);
    row.shape = shape;
    row.layout = std::move(layout);
    row.pieces = 1;
    row.bytes = static_cast<std::uint64_t>(view.bytes());
    note_storage(path, view);
    add_row(std::move(row), inspection_);
  }

  void add_dtensor(const std::string& path, const DTensor& tensor) {
    std::string placements;
    for (const Placement& placement : tensor.sharding->placements)
      placements += (placements.empty() ? "" : ", ") + to_string(placement);
    add(path, "DTensor", tensor.local, tensor.sharding->shape,
        fmt::format("[{}], here {}", placements, to_string(tensor.local.shape)));
    add_mesh(*tensor.sharding->mesh, inspection_);
  }

  void add_sharded(const std::string& path, const ShardedTensor& tensor) {
    TensorRow row;
    row.name = path;
    row.kind = "ShardedTensor";
    row.dtype = torch_name(tensor.dtype);
    row.shape = tensor.shape;
    row.pieces = tensor.local_shards.size();
    row.layout = fmt::format("{} shards, here {}", tensor.shards.size(), row.pieces);
    for (const auto& shard : tensor.local_shards)
      row.bytes += static_cast<std::uint64_t>(shard.tensor.bytes());
    add_row(std::move(row), inspection_);
  }

  void note_storage(const std::string& path, const Tensor& view) {
    if (view.numel() == 0) return;
    Hash hash;
    hash.mix(static_cast<std::int64_t>(std::hash<const Storage*>()(view.storage.get())));
    hash.mix(view.offset);
    hash.mix_all(view.strides);
    hash.mix_all(view.shape);
    auto& others = views_[hash.value()];
    for (const auto& [name, other] : others) {
      if (other->storage == view.storage && other->offset == view.offset &&
          other->strides == view.strides && other->shape == view.shape &&
          other->dtype == view.dtype) {
        inspection_.ties.push_back(fmt::format("{} = {}", path, name));
        return;
      }
    }
    others.emplace_back(path, &view);
  }

  Inspection& inspection_;
  // By all that a view is: many different ones may begin at one place of a storage.
  std::unordered_map<std::size_t, std::vector<std::pair<std::string, const Tensor*>>> views_;
};

}  // namespace

void add_rows(const Value& root, Inspection& inspection) {
  RowCollector(inspection).visit("", root);
}

void add_row(TensorRow row, Inspection& inspection) {
  for (CountAndBytes* sum : {&inspection.by_kind[row.kind], &inspection.by_dtype[row.dtype]}) {
    sum->count += 1;
    sum->bytes += row.bytes;
  }
  inspection.tensors.push_back(std::move(row));
}

void add_mesh(const DeviceMesh& mesh, Inspection& inspection) {
  std::string text = to_string(mesh);
  if (std::find(inspection.meshes.begin(), inspection.meshes.end(), text) ==
      inspection.meshes.end())
    inspection.meshes.push_back(std::move(text));
}

}  // namespace shardkit
