#include "shardkit/checkpoint/catalog_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "shardkit/base/checked_math.h"
#include "shardkit/base/hash.h"
#include "shardkit/checkpoint/discover.h"
#include "shardkit/checkpoint/fqn.h"
#include "shardkit/checkpoint/rank_order.h"
#include "shardkit/checkpoint/rank_pieces.h"
#include "shardkit/checkpoint/read_alike.h"

namespace shardkit {
namespace {

/// What the ranks said of one name so far.
struct Entry {
  std::string name;
  TensorKind kind = TensorKind::kPlain;
  DType dtype = DType::kFloat32;
  Dims shape;
  std::vector<std::int32_t> ranks;  // in the order of being added
  std::vector<MeshGroup> groups;    // kDTensor
  std::vector<RankShard> shards;    // kShardedTensor
  std::vector<Box> shard_boxes;     // kShardedTensor: of all ranks, as the first rank lists them
  std::vector<RankView> views;      // kPlain
};

/// `_extra_state` is what a module's get_extra_state() returns (torch/nn/modules/module.py): the
/// module's own business, no weight.
bool is_extra_state(std::string_view name) {
  return name == "_extra_state" || name.ends_with("._extra_state");
}

/// One object for each different layout.
class LayoutTable {
 public:
  const ViewLayout* find_or_add(const Tensor& tensor) {
    if (last_ != nullptr && last_->shape == tensor.shape && last_->strides == tensor.strides)
      return last_;
    last_ = &*layouts_.insert({tensor.shape, tensor.strides}).first;
    return last_;
  }

 private:
  struct HashLayout {
    std::size_t operator()(const ViewLayout& layout) const {
      Hash hash;
      hash.mix_all(layout.shape);
      hash.mix_all(layout.strides);
      return hash.value();
    }
  };

  std::unordered_set<ViewLayout, HashLayout> layouts_;  // whose elements never move
  const ViewLayout* last_ = nullptr;
};

/// `again` becomes the same name without wrapper names as one before it.
Error one_name_twice(const Dict& dict, const std::string& again) {
  const std::string name = clean_fqn(again);
  const auto first = std::find_if(dict.items.begin(), dict.items.end(), [&name](const auto& item) {
    return clean_fqn(*item.first.template get_if<std::string>()) == name;
  });
  return Error(ErrorCode::kCorrupt, "two names become one when wrapper names come off")
      .of_tensor(name)
      .found(fmt::format("'{}' and '{}'", *first->first.get_if<std::string>(), again));
}

/// Whether two ranks speak of one tensor; submeshes may differ in their ranks.
bool agree(const Sharding& a, const Sharding& b) {
  return a.placements == b.placements && a.shape == b.shape && a.shard_order == b.shard_order &&
         a.mesh->shape() == b.mesh->shape() && a.mesh->device_type() == b.mesh->device_type();
}

Error contradiction(std::string_view what, const Entry& entry, std::int64_t rank) {
  return Error(ErrorCode::kIncomplete,
               fmt::format("ranks {} and {} disagree on the {}", entry.ranks.front(), rank, what));
}

Status check_same(const Entry& entry, std::int64_t rank, TensorKind kind, DType dtype,
                  const Dims& shape) {
  if (entry.kind != kind)
    return contradiction("kind of tensor", entry, rank)
        .expected(to_string(entry.kind))
        .found(to_string(kind));
  if (entry.dtype != dtype)
    return contradiction("dtype", entry, rank)
        .expected(torch_name(entry.dtype))
        .found(torch_name(dtype));
  // Plain shapes are compared later: chunks may differ in dimension 0.
  if (kind != TensorKind::kPlain && entry.shape != shape)
    return contradiction("global shape", entry, rank)
        .expected(to_string(entry.shape))
        .found(to_string(shape));
  return {};
}

}  // namespace

struct CatalogBuilder::Impl {
  std::int64_t world_size = 0;
  std::vector<std::int64_t> missing;
  std::vector<Entry> entries;
  std::unordered_map<std::string, std::size_t> by_name;
  std::size_t next = 0;                        // the entry that is likely to come next
  std::map<std::string, std::string> skipped;  // name -> kind
  std::unordered_set<std::int64_t> ranks;
  LayoutTable layouts;

  /// The entry of a name of the state dict, without wrapper names; none if it is new. Ranks list
  /// their tensors in one order, so that it mostly is the one after the last.
  Entry* find(std::string_view raw_name);
  Status add_value(std::int64_t rank, std::string_view raw_name, Entry* entry, const Value& value);
  Result<Entry*> entry_for(std::int64_t rank, std::string_view raw_name, Entry* entry,
                           TensorKind kind, DType dtype, const Dims& shape);
  Result<RankView> to_view(std::int64_t rank, const Tensor& tensor);
  Status add_dtensor(std::int64_t rank, const DTensor& tensor, RankView view, Entry& entry);
  Status add_sharded(std::int64_t rank, const ShardedTensor& tensor, Entry& entry);
  bool is_missing(std::int64_t rank) const {
    return std::binary_search(missing.begin(), missing.end(), rank);
  }
  Status check_present(const Entry& entry) const;
  Status check_missing_hold_copies() const;
  Result<RankOrder> decide_rank_order(std::vector<std::string>& warnings) const;
  std::size_t most_pieces() const;
  Result<CatalogTensor> join(Entry entry, PlainTensors plain, RankOrder order,
                             std::size_t& most_pieces) const;
};

CatalogBuilder::CatalogBuilder(std::int64_t world_size, std::vector<std::int64_t> missing)
    : impl_(std::make_unique<Impl>()) {
  impl_->world_size = world_size;
  impl_->missing = std::move(missing);
}
CatalogBuilder::~CatalogBuilder() = default;
CatalogBuilder::CatalogBuilder(CatalogBuilder&&) noexcept = default;

Status CatalogBuilder::add(std::int64_t rank, const std::string& file, const Value& root) {
  if (rank < 0 || rank >= impl_->world_size || impl_->is_missing(rank) ||
      !impl_->ranks.insert(rank).second)
    return Error(
        ErrorCode::kInvalidArgument,
        fmt::format("rank {} was added before, or is none of the ranks to be added", rank));
  const auto* dict = root.get_if<Dict>();
  if (dict == nullptr)
    return Error(ErrorCode::kUnsupported, "the file does not hold a state dict")
        .in_file(file)
        .expected("dict")
        .found(kind_name(root));
  std::unordered_set<std::string> skipped_here;
  impl_->next = 0;
  for (const auto& [key, value] : dict->items) {
    const auto* raw = key.get_if<std::string>();
    if (raw == nullptr)
      return Error(ErrorCode::kUnsupported, "a key of the state dict is not a string")
          .in_file(file)
          .found(kind_name(key));
    Entry* entry = impl_->find(*raw);
    if ((entry != nullptr && entry->ranks.back() == rank) ||
        (!skipped_here.empty() && skipped_here.contains(clean_fqn(*raw))))
      return one_name_twice(*dict, *raw).in_file(file);
    if (!is_tensor(value)) skipped_here.insert(clean_fqn(*raw));
    if (Status status = impl_->add_value(rank, *raw, entry, value); !status.ok())
      return std::move(status).error().of_tensor(clean_fqn(*raw)).in_file(file);
  }
  return {};
}

Entry* CatalogBuilder::Impl::find(std::string_view raw_name) {
  // A clean name stays as it is when it is cleaned again, so that equal names need no cleaning.
  if (next < entries.size() && entries[next].name == raw_name) return &entries[next++];
  const auto found = by_name.find(clean_fqn(raw_name));
  if (found == by_name.end()) return nullptr;
  next = found->second + 1;
  return &entries[found->second];
}

Status CatalogBuilder::Impl::add_value(std::int64_t rank, std::string_view raw_name, Entry* entry,
                                       const Value& value) {
  if (const auto* tensor = value.get_if<Tensor>()) {
    SHARDKIT_ASSIGN(RankView view, to_view(rank, *tensor));
    SHARDKIT_ASSIGN(
        entry, entry_for(rank, raw_name, entry, TensorKind::kPlain, tensor->dtype, tensor->shape));
    entry->views.push_back(std::move(view));
    return {};
  }
  if (const auto* tensor = value.get_if<DTensor>()) {
    SHARDKIT_ASSIGN(RankView view, to_view(rank, tensor->local));
    SHARDKIT_ASSIGN(entry, entry_for(rank, raw_name, entry, TensorKind::kDTensor,
                                     tensor->local.dtype, tensor->sharding->shape));
    return add_dtensor(rank, *tensor, std::move(view), *entry);
  }
  if (const auto* tensor = value.get_if<ShardedTensor>()) {
    SHARDKIT_ASSIGN(entry, entry_for(rank, raw_name, entry, TensorKind::kShardedTensor,
                                     tensor->dtype, tensor->shape));
    return add_sharded(rank, *tensor, *entry);
  }
  std::string name = clean_fqn(raw_name);
  if (!is_extra_state(name) && holds_tensor(value))
    return Error(ErrorCode::kUnsupported,
                 "tensors inside a container; a merge takes a flat dict of name to tensor")
        .found(kind_name(value));
  skipped.emplace(std::move(name), kind_name(value));
  return {};
}

Result<Entry*> CatalogBuilder::Impl::entry_for(std::int64_t rank, std::string_view raw_name,
                                               Entry* entry, TensorKind kind, DType dtype,
                                               const Dims& shape) {
  if (entry == nullptr) {
    Entry made;
    made.name = clean_fqn(raw_name);
    made.kind = kind;
    made.dtype = dtype;
    made.shape = shape;
    by_name.emplace(made.name, entries.size());
    entries.push_back(std::move(made));
    next = entries.size();
    entry = &entries.back();
  } else {
    SHARDKIT_TRY(check_same(*entry, rank, kind, dtype, shape));
  }
  entry->ranks.push_back(static_cast<std::int32_t>(rank));
  return entry;
}

Result<RankView> CatalogBuilder::Impl::to_view(std::int64_t rank, const Tensor& tensor) {
  SHARDKIT_TRY(check_view(tensor));
  if (tensor.storage && tensor.storage->is_meta())
    return Error(ErrorCode::kUnsupported, "the tensor is on the meta device and has no bytes");
  return RankView{static_cast<std::int32_t>(rank), layouts.find_or_add(tensor), tensor.offset,
                  tensor.storage};
}

Status CatalogBuilder::Impl::add_dtensor(std::int64_t rank, const DTensor& tensor, RankView view,
                                         Entry& entry) {
  if (!entry.groups.empty() && !agree(*entry.groups.front().sharding, *tensor.sharding))
    return contradiction("mesh or placements", entry, rank);
  const auto group = std::find_if(entry.groups.begin(), entry.groups.end(), [&](const auto& g) {
    return g.sharding->mesh == tensor.sharding->mesh || *g.sharding->mesh == *tensor.sharding->mesh;
  });
  if (group == entry.groups.end()) {
    entry.groups.push_back({tensor.sharding, {}});
    entry.groups.back().ranks.push_back(std::move(view));
  } else {
    group->ranks.push_back(std::move(view));
  }
  return {};
}

Status CatalogBuilder::Impl::add_sharded(std::int64_t rank, const ShardedTensor& tensor,
                                         Entry& entry) {
  std::vector<Box> boxes;
  for (const ShardMetadata& shard : tensor.shards) boxes.push_back(shard.box);
  if (entry.ranks.size() == 1) {
    entry.shard_boxes = std::move(boxes);
  } else if (entry.shard_boxes != boxes) {
    return contradiction("shards of a ShardedTensor", entry, rank);
  }
  for (const ShardedTensor::LocalShard& local : tensor.local_shards) {
    const auto& all = entry.shard_boxes;  // of a nested ShardedTensor not known: none
    if (!all.empty() && std::find(all.begin(), all.end(), local.metadata.box) == all.end())
      return Error(ErrorCode::kCorrupt,
                   "a rank holds a shard that the ShardedTensor's metadata does not list")
          .found(to_string(local.metadata.box));
    SHARDKIT_ASSIGN(RankView view, to_view(rank, local.tensor));
    entry.shards.push_back({local.metadata.box, std::move(view)});
  }
  return {};
}

/// A rank may lack a DTensor whose meshes leave it out, and nothing else.
Status CatalogBuilder::Impl::check_present(const Entry& entry) const {
  if (static_cast<std::int64_t>(entry.ranks.size()) == world_size) return {};
  std::vector<bool> present(static_cast<std::size_t>(world_size), false);
  for (const std::int32_t rank : entry.ranks) present[static_cast<std::size_t>(rank)] = true;
  std::vector<std::int64_t> lacking;
  for (std::int64_t rank = 0; rank < world_size; ++rank) {
    if (present[static_cast<std::size_t>(rank)] || is_missing(rank)) continue;
    const bool on_its_mesh =
        std::any_of(entry.groups.begin(), entry.groups.end(), [rank](const MeshGroup& group) {
          return group.sharding->mesh->coordinate_of(rank).has_value();
        });
    if (entry.kind != TensorKind::kDTensor || on_its_mesh) lacking.push_back(rank);
  }
  if (lacking.empty()) return {};
  return Error(ErrorCode::kIncomplete, "some ranks lack the tensor")
      .of_tensor(entry.name)
      .expected(fmt::format("it on all {} ranks", world_size))
      .found(fmt::format("not on ranks {}", rank_list(lacking)));
}

/// Whether the ranks that are there prove that the missing ones have no tensor of their own, and no
/// other part of one.
Status CatalogBuilder::Impl::check_missing_hold_copies() const {
  if (missing.empty()) return {};
  const bool one_mesh = std::any_of(entries.begin(), entries.end(), [this](const Entry& entry) {
    return !entry.groups.empty() &&
           static_cast<std::int64_t>(entry.groups.front().sharding->mesh->ranks().size()) ==
               world_size;
  });
  const auto is_known = [](const Entry& entry, std::int64_t rank) {
    return entry.groups.empty() ||
           std::any_of(entry.groups.begin(), entry.groups.end(), [rank](const MeshGroup& group) {
             return group.sharding->mesh->coordinate_of(rank).has_value();
           });
  };
  const auto elsewhere = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) {
    return entry.ranks.size() != ranks.size() ||
           !std::all_of(missing.begin(), missing.end(),
                        [&](std::int64_t rank) { return is_known(entry, rank); });
  });
  if (one_mesh && elsewhere == entries.end()) return {};
  Error error(ErrorCode::kIncomplete,
              "nothing proves that the missing ranks hold only copies of what the others hold");
  if (elsewhere != entries.end()) error = std::move(error).of_tensor(elsewhere->name);
  return std::move(error)
      .expected(one_mesh ? "every tensor on every rank that is there, on meshes of all ranks"
                         : fmt::format("a tensor on a mesh of all {} ranks", world_size))
      .found(fmt::format("missing ranks {}", rank_list(missing)));
}

/// One order for the whole checkpoint, by the tensors whose local shapes tell.
Result<RankOrder> CatalogBuilder::Impl::decide_rank_order(
    std::vector<std::string>& warnings) const {
  const Entry* undecided = nullptr;
  const Entry* ambiguous = nullptr;  // undecided, and PyTorch's ranks read different tensors
  const DeviceMesh* mesh = nullptr;  // of `ambiguous`
  const Entry* decisive = nullptr;
  RankOrder order = RankOrder::kProcessGroup;
  for (const Entry& entry : entries) {
    for (const MeshGroup& group : entry.groups) {
      if (!is_out_of_order(*group.sharding)) continue;
      const auto evidence = order_evidence(group);
      if (!evidence) {
        undecided = &entry;
        if (element_count(group.sharding->shape) != 0 && !ranks_read_alike(*group.sharding)) {
          ambiguous = &entry;
          mesh = group.sharding->mesh.get();
        }
      } else if (decisive == nullptr) {
        decisive = &entry;
        order = *evidence;
      } else if (*evidence != order) {
        return Error(ErrorCode::kIncomplete,
                     fmt::format("the mesh's ranks do not count upwards, and the local shapes of "
                                 "'{}' and of this tensor tell of different orders",
                                 decisive->name))
            .of_tensor(entry.name);
      }
    }
  }
  if (ambiguous != nullptr && decisive == nullptr)
    return Error(ErrorCode::kIncomplete,
                 "the device mesh's ranks are in an order in which PyTorch's ranks read different "
                 "tensors, and no local shape tells who holds what")
        .of_tensor(ambiguous->name)
        .found(to_string(*mesh));
  if (undecided != nullptr && decisive == nullptr)
    warnings.push_back(fmt::format(
        "the ranks of the mesh of '{}' and others do not count upwards, and no local shape tells "
        "which rank holds which shard; they were taken as PyTorch's process groups place them, in "
        "sorted order, which is how FSDP2 shards and full_tensor() reads",
        undecided->name));
  return order;
}

/// Of all DTensors: on average 64 for each that a rank holds, which is more than the shards of any
/// tensor parallelism, so that memory stays in proportion to the files.
std::size_t CatalogBuilder::Impl::most_pieces() const {
  std::size_t most = std::size_t{1} << 20;
  for (const Entry& entry : entries) most += 64 * entry.ranks.size();
  return most;
}

Result<CatalogTensor> CatalogBuilder::Impl::join(Entry entry, PlainTensors plain, RankOrder order,
                                                 std::size_t& most_pieces) const {
  SHARDKIT_TRY(check_present(entry));
  CatalogTensor tensor;
  tensor.name = std::move(entry.name);
  tensor.kind = entry.kind;
  tensor.dtype = entry.dtype;
  tensor.shape = entry.shape;
  switch (entry.kind) {
    case TensorKind::kDTensor:
      SHARDKIT_TRY(make_dtensor_pieces(std::move(entry.groups), world_size, missing, order,
                                       most_pieces, tensor));
      break;
    case TensorKind::kShardedTensor:
      SHARDKIT_TRY(make_sharded_tensor_pieces(std::move(entry.shards), tensor));
      break;
    case TensorKind::kPlain: {
      std::sort(entry.views.begin(), entry.views.end(),
                [](const RankView& a, const RankView& b) { return a.rank < b.rank; });
      const bool chunks = plain == PlainTensors::kConcat && world_size > 1 && !tensor.shape.empty();
      if (chunks && !missing.empty())
        return Error(ErrorCode::kIncomplete, "each missing rank has a chunk of a plain tensor")
            .of_tensor(tensor.name)
            .found(fmt::format("missing ranks {}", rank_list(missing)));
      tensor.missing_replicas = static_cast<std::int32_t>(missing.size());
      SHARDKIT_TRY(chunks ? make_concatenated_pieces(std::move(entry.views), tensor)
                          : make_replicated_pieces(std::move(entry.views), tensor));
      break;
    }
  }
  return tensor;
}

namespace {

bool same_bytes(const CatalogTensor& a, const CatalogTensor& b) {
  return a.dtype == b.dtype && std::equal(a.pieces.begin(), a.pieces.end(), b.pieces.begin(),
                                          b.pieces.end(), [](const Piece& p, const Piece& q) {
                                            return p.storage == q.storage && p.offset == q.offset &&
                                                   p.strides == q.strides && p.box == q.box &&
                                                   p.rank == q.rank && p.replica == q.replica &&
                                                   p.addend == q.addend;
                                          });
}

/// The same for tensors of the same_bytes().
std::size_t hash_of_bytes(const CatalogTensor& tensor) {
  Hash hash;
  for (const Piece& piece : tensor.pieces) {
    hash.mix(static_cast<std::int64_t>(std::hash<const Storage*>()(piece.storage.get())));
    hash.mix(piece.offset);
    hash.mix_all(piece.strides);
    hash.mix_all(piece.box.offset);
    hash.mix_all(piece.box.shape);
  }
  return hash.value();
}

/// Pairs of names for the same bytes; of three names for one, the first pairs with both others.
std::vector<SharedStorage> find_shared(const std::vector<CatalogTensor>& tensors) {
  // By all that their pieces are: many different views may begin at one place of a storage.
  std::unordered_map<std::size_t, std::vector<std::size_t>> by_hash;
  std::vector<SharedStorage> shared;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].pieces.empty()) continue;
    std::vector<std::size_t>& others = by_hash[hash_of_bytes(tensors[i])];
    const auto twin = std::find_if(others.begin(), others.end(), [&](std::size_t j) {
      return same_bytes(tensors[j], tensors[i]);
    });
    if (twin != others.end()) {
      shared.push_back({*twin, i});
    } else {
      others.push_back(i);
    }
  }
  return shared;
}

}  // namespace

Result<Catalog> CatalogBuilder::finish(PlainTensors plain) && {
  const auto missing = static_cast<std::int64_t>(impl_->missing.size());
  if (static_cast<std::int64_t>(impl_->ranks.size()) != impl_->world_size - missing)
    return Error(ErrorCode::kInvalidArgument, "not every rank was added before finish()")
        .expected(fmt::format("{} ranks", impl_->world_size - missing))
        .found(std::to_string(impl_->ranks.size()));
  const bool guess = plain == PlainTensors::kAuto;
  if (guess) {
    const bool distributed =
        std::any_of(impl_->entries.begin(), impl_->entries.end(),
                    [](const Entry& entry) { return entry.kind != TensorKind::kPlain; });
    plain = distributed ? PlainTensors::kReplicate : PlainTensors::kConcat;
  }
  Catalog catalog;
  SHARDKIT_TRY(impl_->check_missing_hold_copies());
  SHARDKIT_ASSIGN(const RankOrder order, impl_->decide_rank_order(catalog.warnings));
  catalog.world_size = impl_->world_size;
  catalog.missing_ranks = impl_->missing;
  catalog.tensors.reserve(impl_->entries.size());
  std::size_t most_pieces = impl_->most_pieces();
  for (Entry& entry : impl_->entries) {
    // Moved out one by one, so that views and pieces of all tensors are never held at once.
    auto tensor = impl_->join(std::exchange(entry, {}), plain, order, most_pieces);
    if (!tensor.ok()) return std::move(tensor).error();
    tensor->guessed = guess && tensor->concatenated;
    catalog.tensors.push_back(*std::move(tensor));
  }
  for (const auto& [name, kind] : impl_->skipped) {
    if (impl_->by_name.contains(name))
      return Error(ErrorCode::kIncomplete,
                   "some ranks hold a tensor under this name, others something else")
          .of_tensor(name)
          .found(kind);
    catalog.skipped.push_back({name, kind});
  }
  catalog.shared = find_shared(catalog.tensors);
  return catalog;
}

}  // namespace shardkit
