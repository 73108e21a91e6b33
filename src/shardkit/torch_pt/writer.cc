#include "shardkit/torch_pt/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "shardkit/base/checked_math.h"
#include "shardkit/pickle/writer.h"
#include "shardkit/zip/writer.h"

namespace shardkit {
namespace {

constexpr std::string_view kPlacements = "torch.distributed.tensor.placement_types";

/// The class in a persistent id, for types that torch has a typed storage for.
std::string_view storage_class(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return "DoubleStorage";
    case DType::kFloat32: return "FloatStorage";
    case DType::kFloat16: return "HalfStorage";
    case DType::kBFloat16: return "BFloat16Storage";
    case DType::kInt64: return "LongStorage";
    case DType::kInt32: return "IntStorage";
    case DType::kInt16: return "ShortStorage";
    case DType::kInt8: return "CharStorage";
    case DType::kUInt8: return "ByteStorage";
    case DType::kBool: return "BoolStorage";
    case DType::kComplex128: return "ComplexDoubleStorage";
    case DType::kComplex64: return "ComplexFloatStorage";
    default: return "UntypedStorage";
  }
}

/// Writes values as opcodes, and notes the storages that they refer to.
class TreeWriter {
 public:
  explicit TreeWriter(const PtWriteOptions& options) : options_(options) {}

  Status value(const Value& value) {
    return std::visit([this](const auto& held) { return this->write(held); }, value.variant());
  }

  std::string finish() { return std::move(out_).finish(); }

  /// In the order of their keys.
  const std::vector<std::shared_ptr<const Storage>>& storages() const { return storages_; }
  /// Storages that the writer made itself: ranks of meshes.
  bool is_own(const Storage* storage) const { return own_.contains(storage); }

 private:
  Status write(None) { return out_.none(), Status(); }
  Status write(bool held) { return out_.boolean(held), Status(); }
  Status write(std::int64_t held) { return out_.integer(held), Status(); }
  Status write(double held) { return out_.real(held), Status(); }
  Status write(const std::string& held) { return out_.string(held), Status(); }
  Status write(const Bytes& held) { return out_.bytes(held.data), Status(); }
  Status write(const BigInt& held) {
    if (held.bytes.size() > 255)
      return Error(ErrorCode::kUnsupported, "an int of over 255 bytes is not written to .pt files")
          .found(fmt::format("{} bytes", held.bytes.size()));
    out_.big_integer(held.bytes);
    return {};
  }
  Status write(const ShardedTensor&) {
    return Error(ErrorCode::kUnsupported, "a ShardedTensor is not written to .pt files");
  }
  Status write(const Opaque& held) {
    return Error(ErrorCode::kUnsupported,
                 "an object that is known by name only is not written to .pt files")
        .found(held.class_name);
  }

  Status items(const std::vector<Value>& held) {
    for (const Value& item : held) SHARDKIT_TRY(value(item));
    return {};
  }

  Status write(const List& held) {
    out_.empty_list();
    out_.mark();
    SHARDKIT_TRY(items(held.items));
    out_.appends();
    return {};
  }

  Status write(const Tuple& held) {
    out_.mark();
    SHARDKIT_TRY(items(held.items));
    out_.tuple();
    return {};
  }

  Status write(const Set& held) {
    out_.global("__builtin__", "set");
    out_.mark();
    SHARDKIT_TRY(write(List{held.items}));
    out_.tuple();
    out_.reduce();
    return {};
  }

  Status write(const Dict& held) {
    out_.empty_dict();
    out_.mark();
    for (const auto& [key, item] : held.items) {
      SHARDKIT_TRY(value(key));
      SHARDKIT_TRY(value(item));
    }
    out_.set_items();
    return {};
  }

  Status write(const Tensor& tensor) {
    SHARDKIT_TRY(check_view(tensor));
    if (!tensor.storage) {  // without elements
      Tensor stored = tensor;
      stored.storage = std::make_shared<const Storage>(MemoryBlock{}, 0);
      return write(stored);
    }
    if (tensor.storage->is_meta()) {
      out_.global("torch._utils", "_rebuild_meta_tensor_no_storage");
      out_.mark();
      dtype(tensor.dtype);
      numbers(tensor.shape);
      numbers(tensor.strides);
      out_.boolean(false);
    } else {
      const std::string_view type = storage_class(tensor.dtype);
      const bool v3 = type == "UntypedStorage";
      out_.global("torch._utils", v3 ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
      out_.mark();
      storage(tensor, type);
      out_.integer(tensor.offset);
      numbers(tensor.shape);
      numbers(tensor.strides);
      out_.boolean(false);
      out_.global("collections", "OrderedDict");
      out_.empty_tuple();
      out_.reduce();
      if (v3) dtype(tensor.dtype);
    }
    out_.tuple();
    out_.reduce();
    return {};
  }

  void storage(const Tensor& tensor, std::string_view type) {
    const auto [key, is_new] = key_of_.emplace(tensor.storage.get(), storages_.size());
    if (is_new) storages_.push_back(tensor.storage);
    const auto item = type == "UntypedStorage" ? 1 : item_bytes(tensor.dtype);
    out_.mark();
    out_.string("storage");
    out_.global(type == "UntypedStorage" ? "torch.storage" : "torch", type);
    out_.string(std::to_string(key->second));
    out_.string("cpu");
    out_.integer(static_cast<std::int64_t>(tensor.storage->bytes()) / item);
    out_.tuple();
    out_.persistent_id();
  }

  Status write(const DTensor& tensor) {
    const Sharding& sharding = *tensor.sharding;
    out_.global("torch._tensor", "_rebuild_from_type_v2");
    out_.mark();
    out_.global("torch._utils", "_rebuild_wrapper_subclass");
    out_.global("torch.distributed.tensor", "DTensor");
    out_.mark();
    out_.global("torch.distributed.tensor", "DTensor");
    dtype(tensor.local.dtype);
    numbers(sharding.shape);
    numbers(contiguous_strides(sharding.shape));
    out_.integer(0);
    call_with_text("torch.serialization", "_get_layout", "torch.strided");
    call_with_text("torch", "device", "cpu");
    out_.boolean(false);
    out_.tuple();
    out_.mark();
    out_.none();
    out_.empty_dict();
    out_.mark();
    out_.string("_local_tensor");
    SHARDKIT_TRY(write(tensor.local));
    out_.string("_spec");
    SHARDKIT_TRY(spec(sharding, tensor.local.dtype));
    out_.set_items();
    out_.tuple();
    out_.tuple();
    out_.reduce();
    return {};
  }

  Status spec(const Sharding& sharding, DType type) {
    begin_object("torch.distributed.tensor._dtensor_spec", "DTensorSpec");
    out_.string("mesh");
    SHARDKIT_TRY(mesh(sharding.mesh));
    out_.string("placements");
    out_.mark();
    for (const Placement& placement : sharding.placements) write_placement(placement);
    out_.tuple();
    out_.string("tensor_meta");
    out_.global("torch.distributed.tensor._dtensor_spec", "TensorMeta");
    out_.mark();
    out_.global("torch", "Size");
    out_.mark();
    numbers(sharding.shape);
    out_.tuple();
    out_.reduce();
    numbers(contiguous_strides(sharding.shape));
    dtype(type);
    out_.tuple();
    out_.new_object();
    const bool strided =
        std::any_of(sharding.placements.begin(), sharding.placements.end(),
                    [](const Placement& p) { return std::holds_alternative<StridedShard>(p); });
    out_.string("shard_order");
    if (strided)
      out_.none();
    else
      shard_order(sharding);
    out_.string("use_strided_shard_as_shard_order");
    out_.boolean(strided);
    out_.string("_hash");
    out_.none();
    end_object();
    return {};
  }

  void write_placement(const Placement& placement) {
    if (const auto* shard = std::get_if<Shard>(&placement)) {
      begin_object(kPlacements, "Shard");
      attribute("dim", shard->dim);
    } else if (const auto* shards = std::get_if<StridedShard>(&placement)) {
      begin_object(kPlacements, "_StridedShard");
      attribute("dim", shards->dim);
      attribute("split_factor", shards->split_factor);
    } else if (const auto* partial = std::get_if<Partial>(&placement)) {
      begin_object(kPlacements, "Partial");
      out_.string("reduce_op");
      out_.string(to_string(partial->op));
    } else {
      begin_object(kPlacements, "Replicate");
    }
    end_object();
  }

  void shard_order(const Sharding& sharding) {
    std::map<std::int64_t, std::vector<std::int64_t>> order;
    if (sharding.shard_order.empty()) {
      for (std::size_t m = 0; m < sharding.placements.size(); ++m)
        if (const auto dim = sharded_dim(sharding.placements[m]))
          order[*dim].push_back(static_cast<std::int64_t>(m));
    } else {
      for (const ShardOrder& entry : sharding.shard_order)
        order[entry.tensor_dim] = entry.mesh_dims;
    }
    out_.mark();
    for (const auto& [dim, mesh_dims] : order) {
      out_.global("torch.distributed.tensor._dtensor_spec", "ShardOrderEntry");
      out_.mark();
      out_.integer(dim);
      numbers(mesh_dims);
      out_.tuple();
      out_.new_object();
    }
    out_.tuple();
  }

  Status mesh(const std::shared_ptr<const DeviceMesh>& held) {
    if (const auto known = mesh_memo_.find(held.get()); known != mesh_memo_.end()) {
      out_.get(known->second);
      return {};
    }
    const DeviceMesh& mesh = *held;
    for (const std::int64_t rank : mesh.ranks())
      if (rank > std::numeric_limits<std::int32_t>::max())
        return Error(ErrorCode::kUnsupported, "a mesh with a rank beyond 32 bits")
            .found(fmt::format("rank {}", rank));
    begin_object("torch.distributed.device_mesh", "DeviceMesh");
    out_.string("_device_type");
    out_.string(mesh.device_type());
    out_.string("_layout");
    begin_object("torch.distributed._mesh_layout", "_MeshLayout");
    out_.string("axes");
    out_.mark();
    const Dims strides = contiguous_strides(mesh.shape());
    for (std::size_t d = 0; d < strides.size(); ++d) {
      const bool squashed = mesh.shape()[d] == 1;
      begin_object("torch.distributed._mesh_layout", "_FlatLayout");
      out_.string("shape");
      numbers(squashed ? Dims() : Dims{mesh.shape()[d]});
      out_.string("stride");
      numbers(squashed ? Dims() : Dims{strides[d]});
      end_object();
    }
    out_.tuple();
    end_object();
    out_.string("_rank_map");
    SHARDKIT_TRY(write(rank_map(mesh)));
    out_.string("_mesh_dim_names");
    if (mesh.dim_names().empty()) {
      out_.none();
    } else {
      out_.mark();
      for (const std::string& name : mesh.dim_names()) out_.string(name);
      out_.tuple();
    }
    out_.string("_root_mesh");
    out_.none();
    out_.string("_flatten_rank_map");
    numbers(mesh.ranks());
    out_.string("_thread_id");
    out_.none();
    out_.string("_flatten_mapping");
    out_.empty_dict();
    const std::int64_t rank = options_.rank.value_or(mesh.ranks().front());
    attribute("_rank", rank);
    out_.string("_coordinate_on_dim");
    if (const auto coordinate = mesh.coordinate_of(rank))
      numbers(*coordinate);
    else
      out_.none();
    out_.string("_hash");
    out_.none();
    end_object();
    mesh_memo_.emplace(held.get(), out_.put());
    meshes_.push_back(held);
    return {};
  }

  /// The ranks as an int32 tensor, as DeviceMesh keeps them.
  Tensor rank_map(const DeviceMesh& mesh) {
    auto ranks = std::make_shared<std::vector<std::int32_t>>();
    for (const std::int64_t rank : mesh.ranks()) ranks->push_back(static_cast<std::int32_t>(rank));
    auto* data = reinterpret_cast<std::byte*>(ranks->data());
    const auto count = static_cast<std::int64_t>(ranks->size());
    auto storage = std::make_shared<const Storage>(MemoryBlock{std::move(ranks), data},
                                                   static_cast<std::uint64_t>(count) * 4);
    own_.insert(storage.get());
    return {DType::kInt32, {count}, {1}, 0, std::move(storage)};
  }

  void begin_object(std::string_view module, std::string_view name) {
    out_.global(module, name);
    out_.empty_tuple();
    out_.new_object();
    out_.empty_dict();
    out_.mark();
  }

  void end_object() {
    out_.set_items();
    out_.build();
  }

  void attribute(std::string_view name, std::int64_t held) {
    out_.string(name);
    out_.integer(held);
  }

  void call_with_text(std::string_view module, std::string_view name, std::string_view text) {
    out_.global(module, name);
    out_.mark();
    out_.string(text);
    out_.tuple();
    out_.reduce();
  }

  void dtype(DType type) { out_.global("torch", torch_name(type)); }

  template <class Numbers>
  void numbers(const Numbers& held) {
    out_.mark();
    for (const std::int64_t number : held) out_.integer(number);
    out_.tuple();
  }

  const PtWriteOptions& options_;
  pickle::Writer out_;
  std::vector<std::shared_ptr<const Storage>> storages_;
  std::unordered_map<const Storage*, std::size_t> key_of_;
  std::unordered_set<const Storage*> own_;
  std::unordered_map<const DeviceMesh*, std::uint32_t> mesh_memo_;
  std::vector<std::shared_ptr<const DeviceMesh>> meshes_;  // keeps the memo's keys alive
};

Status write_storage(zip::Writer& archive, const std::string& name, const Storage& storage,
                     bool own, const PtWriteOptions& options) {
  if (options.holes && !own) return archive.add_hole(name, storage.bytes());
  if (options.fill && !own)
    return archive.add(name, storage.bytes(), [&](std::uint64_t offset, std::span<std::byte> out) {
      return options.fill(storage, offset, out);
    });
  const MemoryBlock* block = storage.memory();
  if (!block || (!block->data && storage.bytes() > 0))
    return Error(ErrorCode::kInvalidArgument,
                 "a storage that is not in memory, and nothing fills it");
  const auto copy = [block](std::uint64_t offset, std::span<std::byte> out) {
    std::memcpy(out.data(), block->data + offset, out.size());
    return Status();
  };
  return archive.add(name, storage.bytes(), copy);
}

}  // namespace

Status write_pt(WritableFile& file, const Value& root, const PtWriteOptions& options) {
  TreeWriter tree(options);
  SHARDKIT_TRY(tree.value(root));
  zip::Writer archive(file);
  SHARDKIT_TRY(archive.add("archive/data.pkl", tree.finish()));
  SHARDKIT_TRY(archive.add("archive/.format_version", "1"));
  SHARDKIT_TRY(archive.add("archive/.storage_alignment", "64"));
  SHARDKIT_TRY(archive.add("archive/byteorder", "little"));
  for (std::size_t key = 0; key < tree.storages().size(); ++key) {
    const Storage& storage = *tree.storages()[key];
    SHARDKIT_TRY(write_storage(archive, fmt::format("archive/data/{}", key), storage,
                               tree.is_own(&storage), options));
  }
  SHARDKIT_TRY(archive.add("archive/version", "3\n"));
  return archive.finish();
}

}  // namespace shardkit
