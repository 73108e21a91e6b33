// From the lists of ranks that anybody needs to groups, in one order for all.
#include "shardkit/distributed/mesh_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "shardkit/base/checked_math.h"
#include "shardkit/collective/agreement.h"
#include "shardkit/collective/message.h"

namespace shardkit {
namespace {

using RankList = std::vector<int>;

bool is_world(const RankList& ranks, const ProcessGroup& world) {
  if (ranks.size() != static_cast<std::size_t>(world.size())) return false;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i] != static_cast<int>(i)) return false;
  return true;
}

// The lists that this rank needs, as a message.
Result<std::string> needed_lists(const std::vector<MeshGroups::Request>& requests,
                                 const ProcessGroup& world) {
  std::set<RankList> lists;
  for (const auto& [mesh, dims] : requests) {
    SHARDKIT_TRY(check_ranks(*mesh, world));
    RankList ranks = ranks_along(*mesh, dims, world.rank());
    if (!ranks.empty() && !is_world(ranks, world)) lists.insert(std::move(ranks));
  }
  MessageWriter out;
  out.put(static_cast<std::int64_t>(lists.size()));
  for (const RankList& ranks : lists) {
    out.put(static_cast<std::int64_t>(ranks.size()));
    for (const int rank : ranks) out.put(rank);
  }
  return std::move(out).take();
}

Status add_lists(std::string_view message, int world_size, std::set<RankList>& lists) {
  MessageReader in(message);
  SHARDKIT_ASSIGN(const std::size_t count, in.count());
  for (std::size_t i = 0; i < count; ++i) {
    SHARDKIT_ASSIGN(const std::size_t size, in.count());
    RankList ranks(size);
    for (int& rank : ranks) {
      SHARDKIT_ASSIGN(const std::int64_t number, in.number_up_to(world_size - 1));
      rank = static_cast<int>(number);
    }
    lists.insert(std::move(ranks));
  }
  return in.expect_end();
}

// Rounds of lists without a common rank: each becomes one split of the world.
std::vector<std::vector<const RankList*>> make_rounds(const std::set<RankList>& lists,
                                                      int world_size) {
  std::vector<std::vector<const RankList*>> rounds;
  std::vector<std::vector<bool>> taken;
  for (const RankList& ranks : lists) {
    std::size_t round = 0;
    while (round < rounds.size() && std::any_of(ranks.begin(), ranks.end(), [&](int rank) {
             return taken[round][static_cast<std::size_t>(rank)];
           }))
      ++round;
    if (round == rounds.size()) {
      rounds.emplace_back();
      taken.emplace_back(static_cast<std::size_t>(world_size), false);
    }
    rounds[round].push_back(&ranks);
    for (const int rank : ranks) taken[round][static_cast<std::size_t>(rank)] = true;
  }
  return rounds;
}

}  // namespace

Status check_ranks(const DeviceMesh& mesh, const ProcessGroup& group) {
  const auto highest = std::max_element(mesh.ranks().begin(), mesh.ranks().end());
  if (*highest < group.size()) return {};
  return Error(
             ErrorCode::kInvalidArgument,
             fmt::format("a device mesh has rank {}, which is not in the process group", *highest))
      .expected(fmt::format("ranks below {}", group.size()))
      .found(to_string(mesh));
}

std::vector<int> ranks_along(const DeviceMesh& mesh, MeshDims dims, std::int64_t rank) {
  const std::optional<Dims> coordinate = mesh.coordinate_of(rank);
  if (!coordinate) return {};
  const Dims strides = contiguous_strides(mesh.shape());
  RankList ranks;
  for (std::size_t cell = 0; cell < mesh.ranks().size(); ++cell) {
    bool along = true;
    for (std::size_t d = 0; d < strides.size(); ++d) {
      const std::int64_t c = static_cast<std::int64_t>(cell) / strides[d] % mesh.shape()[d];
      along = along && ((dims >> d & 1) != 0 || c == (*coordinate)[d]);
    }
    if (along) ranks.push_back(static_cast<int>(mesh.ranks()[cell]));
  }
  return ranks;
}

Result<MeshGroups> MeshGroups::make(ProcessGroup& world, Result<std::vector<Request>> requests) {
  auto mine = requests.ok() ? needed_lists(*requests, world)
                            : Result<std::string>(std::move(requests).error());
  SHARDKIT_ASSIGN(const auto messages, exchange_messages(world, std::move(mine)));
  std::set<RankList> lists;
  for (const std::string& message : messages) SHARDKIT_TRY(add_lists(message, world.size(), lists));
  MeshGroups groups(world);
  for (const auto& round : make_rounds(lists, world.size())) {
    const auto own = std::find_if(round.begin(), round.end(), [&](const RankList* ranks) {
      return std::find(ranks->begin(), ranks->end(), world.rank()) != ranks->end();
    });
    SHARDKIT_ASSIGN(auto group, world.split(own == round.end() ? RankList() : **own));
    if (group) groups.made_.emplace(**own, std::move(group));
  }
  return groups;
}

Result<ProcessGroup*> MeshGroups::group(const DeviceMesh& mesh, MeshDims dims) const {
  const RankList ranks = ranks_along(mesh, dims, world_->rank());
  if (!ranks.empty() && is_world(ranks, *world_)) return world_;
  const auto found = made_.find(ranks);
  if (found == made_.end())
    return Error(ErrorCode::kInvalidArgument, "there is no such group of the mesh")
        .found(to_string(mesh));
  return found->second.get();
}

}  // namespace shardkit
