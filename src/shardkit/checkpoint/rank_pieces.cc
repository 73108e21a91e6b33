#include "shardkit/checkpoint/rank_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "shardkit/base/checked_math.h"
#include "shardkit/checkpoint/rank_order.h"
#include "shardkit/layout/cut.h"

namespace shardkit {
namespace {

Error disagreement(std::string what, const CatalogTensor& tensor) {
  return Error(ErrorCode::kIncomplete, std::move(what)).of_tensor(tensor.name);
}

/// The piece of a rank's view that holds `box`; `local_offset` is where the box lies in the view.
Piece make_piece(const RankView& view, Box box, const Dims& local_offset) {
  Piece piece;
  piece.box = std::move(box);
  piece.strides = view.layout->strides;
  piece.offset = view.offset;
  for (std::size_t d = 0; d < local_offset.size(); ++d)
    piece.offset += local_offset[d] * piece.strides[d];  // inside the view, which was checked
  piece.storage = view.storage;
  piece.rank = view.rank;
  return piece;
}

bool lies_before(const Box& a, const Box& b) {
  return std::lexicographical_compare(a.offset.begin(), a.offset.end(), b.offset.begin(),
                                      b.offset.end());
}

/// Numbers replicas by the lowest rank they hold, then sorts pieces as Piece's contract says.
void order_pieces(CatalogTensor& tensor) {
  if (tensor.replicas > 1) {
    std::vector<std::pair<std::int32_t, std::int32_t>> by_rank;  // {lowest rank, replica}
    for (std::int32_t replica = 0; replica < tensor.replicas; ++replica)
      by_rank.emplace_back(std::numeric_limits<std::int32_t>::max(), replica);
    for (const Piece& piece : tensor.pieces) {
      std::int32_t& lowest = by_rank[static_cast<std::size_t>(piece.replica)].first;
      lowest = std::min(lowest, piece.rank);
    }
    std::sort(by_rank.begin(), by_rank.end());
    std::vector<std::int32_t> number(by_rank.size());
    for (std::size_t i = 0; i < by_rank.size(); ++i)
      number[static_cast<std::size_t>(by_rank[i].second)] = static_cast<std::int32_t>(i);
    for (Piece& piece : tensor.pieces)
      piece.replica = number[static_cast<std::size_t>(piece.replica)];
  }
  const auto before = [](const Piece& a, const Piece& b) {
    if (a.replica != b.replica) return a.replica < b.replica;
    if (a.addend != b.addend) return a.addend < b.addend;
    return lies_before(a.box, b.box);
  };
  if (!std::is_sorted(tensor.pieces.begin(), tensor.pieces.end(), before))
    std::sort(tensor.pieces.begin(), tensor.pieces.end(), before);
}

/// How the coordinates of a mesh number its replicas and addends, row-major over the mesh
/// dimensions that replicate and those that are partial.
class LayerNumbers {
 public:
  explicit LayerNumbers(const Sharding& sharding) : sharding_(sharding) {
    const Dims& mesh = sharding.mesh->shape();
    for (std::size_t d = 0; d < mesh.size(); ++d) {
      if (std::holds_alternative<Replicate>(sharding.placements[d])) replicas_ *= mesh[d];
      if (const auto* partial = std::get_if<Partial>(&sharding.placements[d])) {
        addends_ *= mesh[d];
        if (partial->op == ReduceOp::kAvg) divisor_ *= mesh[d];
        // Ops mix only as sum and average, both of which add.
        if (op_ != Accumulation::kAvg) op_ = to_accumulation(partial->op);
      }
    }
  }

  std::int64_t replicas() const { return replicas_; }
  std::int64_t addends() const { return addends_; }
  std::int64_t divisor() const { return divisor_; }
  std::optional<Accumulation> op() const { return op_; }

  /// {replica, addend} of a coordinate.
  std::pair<std::int32_t, std::int32_t> at(const Dims& coordinate) const {
    const Dims& mesh = sharding_.mesh->shape();
    std::int64_t replica = 0;
    std::int64_t addend = 0;
    for (std::size_t d = 0; d < mesh.size(); ++d) {
      if (std::holds_alternative<Replicate>(sharding_.placements[d]))
        replica = replica * mesh[d] + coordinate[d];
      if (std::holds_alternative<Partial>(sharding_.placements[d]))
        addend = addend * mesh[d] + coordinate[d];
    }
    return {static_cast<std::int32_t>(replica), static_cast<std::int32_t>(addend)};
  }

 private:
  const Sharding& sharding_;
  std::int64_t replicas_ = 1;
  std::int64_t addends_ = 1;
  std::int64_t divisor_ = 1;
  std::optional<Accumulation> op_;
};

struct Member {
  Dims coordinate;  // as shard_coordinate() says
  const RankView* view;
};

/// Checks that exactly the members of the group's mesh are its ranks, but for ranks outside the
/// mesh that hold nothing; returns the members with their coordinates.
Result<std::vector<Member>> mesh_members(const MeshGroup& group, std::int64_t world_size,
                                         std::span<const std::int64_t> missing, RankOrder order,
                                         const CatalogTensor& tensor) {
  const DeviceMesh& mesh = *group.sharding->mesh;
  // Asked once: positions in sorted lines cost more than coordinates, and few meshes need them.
  if (!is_out_of_order(*group.sharding)) order = RankOrder::kMeshArray;
  std::vector<Member> members;
  for (const RankView& view : group.ranks) {
    if (mesh.coordinate_of(view.rank)) {
      members.push_back({shard_coordinate(*group.sharding, view.rank, order), &view});
    } else if (element_count(view.layout->shape) != 0) {
      return disagreement(
                 fmt::format("rank {} holds elements of the tensor but is not in its device mesh",
                             view.rank),
                 tensor)
          .found(to_string(mesh));
    }
  }
  if (members.size() == mesh.ranks().size()) return members;
  std::size_t lacking = 0;
  for (const std::int64_t rank : mesh.ranks()) {
    if (rank >= world_size)
      return disagreement(
                 fmt::format("the mesh has rank {}, which is not below the world size", rank),
                 tensor)
          .expected(fmt::format("ranks below {}", world_size))
          .found(to_string(mesh));
    if (std::binary_search(missing.begin(), missing.end(), rank)) {
      ++lacking;
      continue;
    }
    const bool told = std::any_of(group.ranks.begin(), group.ranks.end(),
                                  [rank](const RankView& view) { return view.rank == rank; });
    if (!told)
      return disagreement(fmt::format("the device mesh of rank {} has rank {}, whose tensor is on "
                                      "another mesh",
                                      group.ranks.front().rank, rank),
                          tensor)
          .expected(to_string(mesh));
  }
  if (members.size() + lacking == mesh.ranks().size()) return members;
  return Error(ErrorCode::kInternal, "a device mesh has a rank that was added twice")
      .of_tensor(tensor.name);
}

/// Where ranks of a mesh are missing: the copies of each shard that are there, numbered anew in
/// rank order, so that a copy of the tensor may be put together from several of the mesh's
/// replicas.
class CopiesThere {
 public:
  /// @param cuts  of each tensor dimension
  CopiesThere(const Sharding& sharding, const std::vector<Member>& members,
              const std::vector<Cuts>& cuts)
      : sharding_(sharding), counts_(sharding.mesh->ranks().size(), 0) {
    for (const Member& member : members) numbers_.push_back(counts_[shard_of(member.coordinate)]++);
    // One coordinate for each shard: that of the first replica.
    Dims coordinate(sharding.mesh->shape().size(), 0);
    for (std::size_t cell = 0; cell < counts_.size(); ++cell, advance(coordinate)) {
      if (shard_of(coordinate) != cell || is_empty(coordinate, cuts)) continue;
      whole_ = std::min(whole_, counts_[cell]);
    }
  }

  /// The number of a member's copy of its shard.
  std::int32_t number(std::size_t member) const { return numbers_[member]; }
  /// How many copies of the whole tensor there are.
  std::int32_t whole() const { return whole_; }

 private:
  /// The cell of the mesh with the same shard and addend in the first replica.
  std::size_t shard_of(const Dims& coordinate) const {
    const Dims& mesh = sharding_.mesh->shape();
    std::int64_t cell = 0;
    for (std::size_t d = 0; d < mesh.size(); ++d) {
      const bool replicates = std::holds_alternative<Replicate>(sharding_.placements[d]);
      cell = cell * mesh[d] + (replicates ? 0 : coordinate[d]);
    }
    return static_cast<std::size_t>(cell);
  }

  void advance(Dims& coordinate) const {
    for (std::size_t d = coordinate.size(); d-- > 0;) {
      if (++coordinate[d] < sharding_.mesh->shape()[d]) return;
      coordinate[d] = 0;
    }
  }

  bool is_empty(const Dims& coordinate, const std::vector<Cuts>& cuts) const {
    for (std::size_t d = 0; d < cuts.size(); ++d)
      if (size_after(sharding_.shape[d], cuts[d], coordinate) == 0) return true;
    return false;
  }

  const Sharding& sharding_;
  std::vector<std::int32_t> counts_;   // by shard_of()
  std::vector<std::int32_t> numbers_;  // by member
  std::int32_t whole_ = std::numeric_limits<std::int32_t>::max();
};

}  // namespace

Accumulation to_accumulation(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return Accumulation::kSum;
    case ReduceOp::kAvg: return Accumulation::kAvg;
    case ReduceOp::kMin: return Accumulation::kMin;
    case ReduceOp::kMax: return Accumulation::kMax;
    case ReduceOp::kProduct: return Accumulation::kProduct;
  }
  return Accumulation::kSum;
}

Status make_dtensor_pieces(std::vector<MeshGroup> groups, std::int64_t world_size,
                           std::span<const std::int64_t> missing, RankOrder order,
                           std::size_t& most_pieces, CatalogTensor& tensor) {
  std::sort(groups.begin(), groups.end(), [](const MeshGroup& a, const MeshGroup& b) {
    return a.ranks.front().rank < b.ranks.front().rank;
  });
  tensor.sharding = groups.front().sharding;
  std::int64_t replicas = 0;
  std::int64_t left_out = 0;
  for (const MeshGroup& group : groups) {
    const Sharding& sharding = *group.sharding;
    const LayerNumbers layers(sharding);
    SHARDKIT_ASSIGN(const auto members, mesh_members(group, world_size, missing, order, tensor));
    std::vector<LocalShape> known;
    known.reserve(members.size());
    for (const auto& [coordinate, view] : members)
      known.push_back({coordinate, view->layout->shape});
    const auto cut_order = decide_cut_order(sharding, known);
    if (!cut_order.ok()) return Error(cut_order.error()).of_tensor(tensor.name);
    std::vector<Cuts> cuts(sharding.shape.size());
    for (std::size_t d = 0; d < cuts.size(); ++d) cuts[d] = cuts_of(sharding, d, *cut_order);
    std::optional<CopiesThere> there;
    if (members.size() < sharding.mesh->ranks().size()) there.emplace(sharding, members, cuts);
    const std::int64_t here =
        there ? std::min<std::int64_t>(there->whole(), layers.replicas()) : layers.replicas();
    std::vector<Intervals> intervals(cuts.size());
    if (groups.size() == 1) tensor.pieces.reserve(members.size());
    for (std::size_t m = 0; m < members.size(); ++m) {
      const auto& [coordinate, view] = members[m];
      auto [replica, addend] = layers.at(coordinate);
      if (there) replica = there->number(m);
      if (replica >= here) continue;
      for (std::size_t d = 0; d < cuts.size(); ++d)
        intervals[d] = intervals_after(sharding.shape[d], cuts[d], coordinate);
      // No boxes where the rank holds nothing; FSDP2 then records sizes that mean nothing.
      const std::vector<BoxPair> pairs = cut_into_boxes(intervals);
      if (pairs.size() > most_pieces)
        return Error(ErrorCode::kLimit, "the strided shards of the tensors are of too many pieces")
            .of_tensor(tensor.name)
            .found(fmt::format("{} on rank {} alone", pairs.size(), view->rank));
      most_pieces -= pairs.size();
      for (const BoxPair& pair : pairs) {
        Piece piece = make_piece(*view, pair.global, pair.local_offset);
        piece.replica = static_cast<std::int32_t>(replicas) + replica;
        piece.addend = addend;
        tensor.pieces.push_back(std::move(piece));
      }
    }
    // Not even if another mesh has one: that may be of other experts.
    if (here == 0) return disagreement("the missing ranks hold a part of every copy", tensor);
    replicas += here;
    left_out += layers.replicas() - here;
    tensor.addends = static_cast<std::int32_t>(layers.addends());
    tensor.reduction = layers.addends() > 1 ? layers.op() : std::nullopt;
    tensor.divisor = layers.divisor();
  }
  tensor.replicas = static_cast<std::int32_t>(replicas);
  tensor.missing_replicas = static_cast<std::int32_t>(left_out);
  tensor.pieces.shrink_to_fit();
  order_pieces(tensor);
  return {};
}

Status make_sharded_tensor_pieces(std::vector<RankShard> shards, CatalogTensor& tensor) {
  std::sort(shards.begin(), shards.end(), [](const RankShard& a, const RankShard& b) {
    if (a.box.offset != b.box.offset) return lies_before(a.box, b.box);
    return a.view.rank < b.view.rank;
  });
  const Dims at_start(tensor.shape.size(), 0);
  std::int32_t replica = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const RankShard& shard = shards[i];
    if (shard.view.layout->shape != shard.box.shape)
      return disagreement(
                 fmt::format("the shard of rank {} is not of the size that its metadata says",
                             shard.view.rank),
                 tensor)
          .expected(to_string(shard.box.shape))
          .found(to_string(shard.view.layout->shape));
    if (shard.box.empty()) continue;
    const bool repeated = i > 0 && shards[i - 1].box == shard.box;
    replica = repeated ? replica + 1 : 0;
    tensor.replicas = std::max(tensor.replicas, replica + 1);
    Piece piece = make_piece(shard.view, shard.box, at_start);
    piece.replica = replica;
    tensor.pieces.push_back(std::move(piece));
  }
  order_pieces(tensor);
  return {};
}

Status make_replicated_pieces(std::vector<RankView> ranks, CatalogTensor& tensor) {
  tensor.replicas = static_cast<std::int32_t>(ranks.size());
  const Dims at_start(tensor.shape.size(), 0);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].layout->shape != tensor.shape)
      return disagreement(fmt::format("plain copies of ranks {} and {} differ in shape",
                                      ranks[0].rank, ranks[i].rank),
                          tensor)
          .expected(to_string(tensor.shape))
          .found(to_string(ranks[i].layout->shape));
    if (element_count(tensor.shape) == 0) continue;
    Piece piece = make_piece(ranks[i], whole(tensor.shape), at_start);
    piece.replica = static_cast<std::int32_t>(i);
    tensor.pieces.push_back(std::move(piece));
  }
  return {};
}

Status make_concatenated_pieces(std::vector<RankView> ranks, CatalogTensor& tensor) {
  tensor.concatenated = true;
  const Dims at_start(tensor.shape.size(), 0);
  std::int64_t rows = 0;
  for (const RankView& view : ranks) {
    Dims expected = tensor.shape;
    if (view.layout->shape.size() == expected.size()) expected[0] = view.layout->shape[0];
    if (view.layout->shape != expected)
      return disagreement(fmt::format("the chunks of ranks {} and {} do not join on dimension 0",
                                      ranks[0].rank, view.rank),
                          tensor)
          .expected(to_string(expected))
          .found(to_string(view.layout->shape));
    Box box = whole(view.layout->shape);
    box.offset[0] = rows;
    const auto sum = checked_add(rows, view.layout->shape[0]);
    if (!sum) return disagreement("the chunks of all ranks have too many rows", tensor);
    rows = *sum;
    if (!box.empty()) tensor.pieces.push_back(make_piece(view, std::move(box), at_start));
  }
  tensor.shape[0] = rows;
  if (!element_count(tensor.shape))
    return disagreement("the chunks of all ranks have too many elements", tensor)
        .found(to_string(tensor.shape));
  return {};
}

}  // namespace shardkit
