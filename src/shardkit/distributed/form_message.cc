// A tree to bytes and back; one case for each kind of value.
#include "shardkit/distributed/form_message.h"

#include <bit>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shardkit/base/checked_math.h"
#include "shardkit/collective/message.h"

namespace shardkit {
namespace {

constexpr int kMaxDepth = 1000;

enum class Kind : std::int64_t {
  kNone,
  kBool,
  kInt,
  kBigInt,
  kFloat,
  kText,
  kBytes,
  kList,
  kTuple,
  kSet,
  kDict,
  kTensor,
  kDTensor,
  kShardedTensor,
  kOpaque,
};

class FormEncoder {
 public:
  std::string take() && { return std::move(out_).take(); }
  void put(const Value& value) { std::visit(*this, value.variant()); }

  void operator()(None) { put(Kind::kNone); }
  void operator()(bool v) { put(Kind::kBool), out_.put(std::int64_t{v}); }
  void operator()(std::int64_t v) { put(Kind::kInt), out_.put(v); }
  void operator()(const BigInt& v) { put(Kind::kBigInt), out_.put(v.bytes); }
  void operator()(double v) { put(Kind::kFloat), out_.put(std::bit_cast<std::int64_t>(v)); }
  void operator()(const std::string& v) { put(Kind::kText), out_.put(v); }
  void operator()(const Bytes& v) { put(Kind::kBytes), out_.put(v.data); }
  void operator()(const List& v) { put(Kind::kList), put(v.items); }
  void operator()(const Tuple& v) { put(Kind::kTuple), put(v.items); }
  void operator()(const Set& v) { put(Kind::kSet), put(v.items); }
  void operator()(const Dict& v) {
    put(Kind::kDict);
    put_count(v.items.size());
    for (const auto& [key, item] : v.items) put(key), put(item);
  }
  void operator()(const Tensor& v) { put(Kind::kTensor), put_view(v); }
  void operator()(const DTensor& v) {
    put(Kind::kDTensor);
    put_view(v.local);
    put_sharding(v.sharding);
  }
  void operator()(const ShardedTensor& v) {
    put(Kind::kShardedTensor);
    out_.put(static_cast<std::int64_t>(v.dtype));
    out_.put(v.shape);
    put_count(v.local_shards.size());
    for (const auto& shard : v.local_shards) put_shard(shard.metadata), put_view(shard.tensor);
    put_count(v.shards.size());
    for (const ShardMetadata& shard : v.shards) put_shard(shard);
  }
  void operator()(const Opaque& v) {
    put(Kind::kOpaque);
    out_.put(v.class_name);
    put(v.state);
  }

 private:
  void put(Kind kind) { out_.put(static_cast<std::int64_t>(kind)); }
  void put_count(std::size_t count) { out_.put(static_cast<std::int64_t>(count)); }
  void put(const std::vector<Value>& items) {
    put_count(items.size());
    for (const Value& item : items) put(item);
  }
  void put_view(const Tensor& tensor) {
    out_.put(static_cast<std::int64_t>(tensor.dtype));
    out_.put(tensor.shape);
  }
  void put_shard(const ShardMetadata& shard) {
    out_.put(shard.box.offset);
    out_.put(shard.box.shape);
    out_.put(shard.rank);
  }

  // A number that has come before, or the next one and then the thing itself.
  template <class T>
  bool put_known(const std::shared_ptr<const T>& thing,
                 std::unordered_map<const T*, std::int64_t>& known) {
    const auto [at, added] =
        known.try_emplace(thing.get(), static_cast<std::int64_t>(known.size()));
    out_.put(at->second);
    return !added;
  }

  void put_sharding(const std::shared_ptr<const Sharding>& sharding) {
    if (put_known(sharding, shardings_)) return;
    put_mesh(sharding->mesh);
    out_.put(sharding->shape);
    put_count(sharding->placements.size());
    for (const Placement& placement : sharding->placements) put_placement(placement);
    put_count(sharding->shard_order.size());
    for (const ShardOrder& order : sharding->shard_order) {
      out_.put(order.tensor_dim);
      put_count(order.mesh_dims.size());
      for (const std::int64_t dim : order.mesh_dims) out_.put(dim);
    }
  }

  void put_placement(const Placement& placement) {
    std::int64_t first = 0;
    std::int64_t second = 0;
    if (const auto* shard = std::get_if<Shard>(&placement)) first = shard->dim;
    if (const auto* strided = std::get_if<StridedShard>(&placement)) {
      first = strided->dim;
      second = strided->split_factor;
    }
    if (const auto* partial = std::get_if<Partial>(&placement))
      first = static_cast<std::int64_t>(partial->op);
    put_count(placement.index());
    out_.put(first);
    out_.put(second);
  }

  void put_mesh(const std::shared_ptr<const DeviceMesh>& mesh) {
    if (put_known(mesh, meshes_)) return;
    out_.put(mesh->device_type());
    out_.put(mesh->shape());
    put_count(mesh->ranks().size());
    for (const std::int64_t rank : mesh->ranks()) out_.put(rank);
    put_count(mesh->dim_names().size());
    for (const std::string& name : mesh->dim_names()) out_.put(name);
  }

  MessageWriter out_;
  std::unordered_map<const Sharding*, std::int64_t> shardings_;
  std::unordered_map<const DeviceMesh*, std::int64_t> meshes_;
};

Error damaged(std::string_view what) {
  return {ErrorCode::kPeer, "a message of another rank is damaged: " + std::string(what)};
}

class FormDecoder {
 public:
  explicit FormDecoder(std::string_view bytes) : in_(bytes) {}

  Result<Value> decode() {
    SHARDKIT_ASSIGN(Value value, get(0));
    SHARDKIT_TRY(in_.expect_end());
    return value;
  }

 private:
  Result<Value> get(int depth) {
    if (depth > kMaxDepth) return damaged("it is too deep");
    SHARDKIT_ASSIGN(const std::int64_t number,
                    in_.number_up_to(static_cast<std::int64_t>(Kind::kOpaque)));
    switch (static_cast<Kind>(number)) {
      case Kind::kNone: return Value();
      case Kind::kBool: {
        SHARDKIT_ASSIGN(const std::int64_t v, in_.number_up_to(1));
        return Value(v != 0);
      }
      case Kind::kInt: {
        SHARDKIT_ASSIGN(const std::int64_t v, in_.number());
        return Value(v);
      }
      case Kind::kFloat: {
        SHARDKIT_ASSIGN(const std::int64_t v, in_.number());
        return Value(std::bit_cast<double>(v));
      }
      case Kind::kBigInt: return get_text<BigInt>();
      case Kind::kText: return get_text<std::string>();
      case Kind::kBytes: return get_text<Bytes>();
      case Kind::kList: return get_items<List>(depth);
      case Kind::kTuple: return get_items<Tuple>(depth);
      case Kind::kSet: return get_items<Set>(depth);
      case Kind::kDict: return get_dict(depth);
      case Kind::kTensor: {
        SHARDKIT_ASSIGN(Tensor tensor, get_view());
        return Value(std::move(tensor));
      }
      case Kind::kDTensor: {
        DTensor tensor;
        SHARDKIT_ASSIGN(tensor.local, get_view());
        SHARDKIT_ASSIGN(tensor.sharding, get_sharding());
        return Value(std::move(tensor));
      }
      case Kind::kShardedTensor: return get_sharded();
      case Kind::kOpaque: {
        SHARDKIT_ASSIGN(std::string name, in_.text());
        SHARDKIT_ASSIGN(auto state, get_list(depth));
        return Value(Opaque{std::move(name), std::move(state)});
      }
    }
    return Value();
  }

  template <class T>
  Result<Value> get_text() {
    SHARDKIT_ASSIGN(std::string text, in_.text());
    return Value(T{std::move(text)});
  }

  Result<std::vector<Value>> get_list(int depth) {
    SHARDKIT_ASSIGN(const std::size_t count, in_.count());
    std::vector<Value> items;
    for (std::size_t i = 0; i < count; ++i) {
      SHARDKIT_ASSIGN(Value item, get(depth + 1));
      items.push_back(std::move(item));
    }
    return items;
  }

  template <class T>
  Result<Value> get_items(int depth) {
    SHARDKIT_ASSIGN(auto items, get_list(depth));
    return Value(T{std::move(items)});
  }

  Result<Value> get_dict(int depth) {
    SHARDKIT_ASSIGN(const std::size_t count, in_.count());
    Dict dict;
    for (std::size_t i = 0; i < count; ++i) {
      SHARDKIT_ASSIGN(Value key, get(depth + 1));
      SHARDKIT_ASSIGN(Value item, get(depth + 1));
      dict.items.emplace_back(std::move(key), std::move(item));
    }
    return Value(std::move(dict));
  }

  Result<DType> get_dtype() {
    SHARDKIT_ASSIGN(const std::int64_t number, in_.number_up_to(kDTypeCount - 1));
    return static_cast<DType>(number);
  }

  Result<Tensor> get_view() {
    Tensor tensor;
    SHARDKIT_ASSIGN(tensor.dtype, get_dtype());
    SHARDKIT_ASSIGN(tensor.shape, in_.dims());
    const auto numel = element_count(tensor.shape);
    const auto bytes = numel ? checked_mul(*numel, item_bytes(tensor.dtype)) : std::nullopt;
    if (!bytes) return damaged("no tensor can have the shape " + to_string(tensor.shape));
    tensor.strides = contiguous_strides(tensor.shape);
    tensor.storage = std::make_shared<const Storage>(NoBytes(), static_cast<std::uint64_t>(*bytes));
    return tensor;
  }

  Result<ShardMetadata> get_shard() {
    ShardMetadata shard;
    SHARDKIT_ASSIGN(shard.box.offset, in_.dims());
    SHARDKIT_ASSIGN(shard.box.shape, in_.dims());
    SHARDKIT_ASSIGN(shard.rank, in_.number());
    return shard;
  }

  Result<Value> get_sharded() {
    ShardedTensor tensor;
    SHARDKIT_ASSIGN(tensor.dtype, get_dtype());
    SHARDKIT_ASSIGN(tensor.shape, in_.dims());
    SHARDKIT_ASSIGN(const std::size_t local, in_.count());
    for (std::size_t i = 0; i < local; ++i) {
      ShardedTensor::LocalShard shard;
      SHARDKIT_ASSIGN(shard.metadata, get_shard());
      SHARDKIT_ASSIGN(shard.tensor, get_view());
      tensor.local_shards.push_back(std::move(shard));
    }
    SHARDKIT_ASSIGN(const std::size_t all, in_.count());
    for (std::size_t i = 0; i < all; ++i) {
      SHARDKIT_ASSIGN(ShardMetadata shard, get_shard());
      tensor.shards.push_back(std::move(shard));
    }
    return Value(std::move(tensor));
  }

  Result<std::shared_ptr<const Sharding>> get_sharding() {
    SHARDKIT_ASSIGN(const std::int64_t number,
                    in_.number_up_to(static_cast<std::int64_t>(shardings_.size())));
    const auto at = static_cast<std::size_t>(number);
    if (at < shardings_.size()) return shardings_[at];
    Sharding sharding;
    SHARDKIT_ASSIGN(sharding.mesh, get_mesh());
    SHARDKIT_ASSIGN(sharding.shape, in_.dims());
    SHARDKIT_ASSIGN(const std::size_t placements, in_.count());
    for (std::size_t i = 0; i < placements; ++i) {
      SHARDKIT_ASSIGN(const Placement placement, get_placement());
      sharding.placements.push_back(placement);
    }
    SHARDKIT_ASSIGN(const std::size_t orders, in_.count());
    for (std::size_t i = 0; i < orders; ++i) {
      ShardOrder order;
      SHARDKIT_ASSIGN(order.tensor_dim, in_.number());
      SHARDKIT_ASSIGN(const std::size_t dims, in_.count());
      order.mesh_dims.resize(dims);
      for (std::int64_t& dim : order.mesh_dims) {
        SHARDKIT_ASSIGN(dim, in_.number());
      }
      sharding.shard_order.push_back(std::move(order));
    }
    if (const Status status = check_sharding(sharding); !status.ok())
      return damaged(status.error().message());
    shardings_.push_back(std::make_shared<const Sharding>(std::move(sharding)));
    return shardings_.back();
  }

  Result<Placement> get_placement() {
    SHARDKIT_ASSIGN(const std::int64_t kind, in_.number_up_to(3));
    SHARDKIT_ASSIGN(const std::int64_t first, in_.number());
    SHARDKIT_ASSIGN(const std::int64_t second, in_.number());
    if (kind == 0) return Placement(Shard{first});
    if (kind == 1) return Placement(StridedShard{first, second});
    if (kind == 2) return Placement(Replicate{});
    if (first < 0 || first > static_cast<std::int64_t>(ReduceOp::kProduct))
      return damaged("no reduction has the number " + std::to_string(first));
    return Placement(Partial{static_cast<ReduceOp>(first)});
  }

  Result<std::shared_ptr<const DeviceMesh>> get_mesh() {
    SHARDKIT_ASSIGN(const std::int64_t number,
                    in_.number_up_to(static_cast<std::int64_t>(meshes_.size())));
    const auto at = static_cast<std::size_t>(number);
    if (at < meshes_.size()) return meshes_[at];
    SHARDKIT_ASSIGN(std::string device_type, in_.text());
    SHARDKIT_ASSIGN(Dims shape, in_.dims());
    SHARDKIT_ASSIGN(const std::size_t count, in_.count());
    std::vector<std::int64_t> ranks(count);
    for (std::int64_t& rank : ranks) {
      SHARDKIT_ASSIGN(rank, in_.number());
    }
    SHARDKIT_ASSIGN(const std::size_t named, in_.count());
    std::vector<std::string> names(named);
    for (std::string& name : names) {
      SHARDKIT_ASSIGN(name, in_.text());
    }
    auto mesh = DeviceMesh::make(std::move(device_type), std::move(shape), std::move(ranks),
                                 std::move(names));
    if (!mesh.ok()) return damaged(mesh.error().message());
    meshes_.push_back(std::make_shared<const DeviceMesh>(*std::move(mesh)));
    return meshes_.back();
  }

  MessageReader in_;
  std::vector<std::shared_ptr<const Sharding>> shardings_;
  std::vector<std::shared_ptr<const DeviceMesh>> meshes_;
};

}  // namespace

std::string encode_form(const Value& value) {
  FormEncoder encoder;
  encoder.put(value);
  return std::move(encoder).take();
}

Result<Value> decode_form(std::string_view bytes) { return FormDecoder(bytes).decode(); }

}  // namespace shardkit
