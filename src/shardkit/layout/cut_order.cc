// decide_cut_order: which reading of a sharding the recorded local shapes prove.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "shardkit/layout/cut.h"
#include "shardkit/layout/sharding.h"

namespace shardkit {
namespace {

// Every order of more plain cuts than this is too many to try; real meshes have at most 4 dims.
constexpr std::size_t kMaxPermutedCuts = 6;

// What one tensor dimension says about the whole tensor.
enum class Verdict { kEither, kSpec, kPhysical };

// One tensor dimension, and the orders in which its bytes may have been cut.
struct Contest {
  std::size_t dim = 0;
  std::int64_t length = 0;
  Cuts spec;
  Cuts physical;
  std::vector<Cuts> candidates;  // spec first
};

bool divides_evenly(std::int64_t length, const Cuts& cuts) {
  std::int64_t pieces = 1;
  for (const Cut& cut : cuts) pieces *= cut.pieces;  // at most the mesh's size
  return length % pieces == 0;
}

// The plain cuts, in order, that strided ones stand for (each split factor is the number of pieces
// that the cuts before it made), if there are such (torch 2.13, _dtensor_spec.py,
// _maybe_convert_StridedShard_to_shard_order). They hold the same elements if the length divides.
std::optional<Cuts> as_plain_cuts(const Cuts& cuts) {
  Cuts order;
  for (std::size_t i = cuts.size(); i-- > 0;) {
    std::int64_t pieces = 1;
    std::size_t at = 0;
    while (pieces != cuts[i].groups && at < order.size()) pieces *= order[at++].pieces;
    if (pieces != cuts[i].groups) return std::nullopt;
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(at),
                 Cut{cuts[i].mesh_dim, cuts[i].pieces, 1});
  }
  return order;
}

std::vector<Cuts> every_order(Cuts plain) {
  const auto by_mesh_dim = [](const Cut& a, const Cut& b) { return a.mesh_dim < b.mesh_dim; };
  std::sort(plain.begin(), plain.end(), by_mesh_dim);
  std::vector<Cuts> orders;
  do {
    orders.push_back(plain);
  } while (std::next_permutation(plain.begin(), plain.end(), by_mesh_dim));
  return orders;
}

Error undecided(std::size_t dim, std::string_view why) {
  return {ErrorCode::kIncomplete,
          fmt::format("cannot tell how dimension {} was cut: {}", dim, why)};
}

// The orders that anything may have stored: PyTorch cuts as the placements say, but FSDP2 puts its
// StridedShard in front of the tensor-parallel Shards, with their number as split factor, and cuts
// what they left (torch 2.13, _fsdp_param.py _init_sharding_spec_tp).
Result<Contest> make_contest(const Sharding& sharding, std::size_t dim) {
  Contest contest{dim, sharding.shape[dim], cuts_of(sharding, dim, CutOrder::kSpec), {}, {}};
  contest.candidates.push_back(contest.spec);
  const auto strided = std::count_if(contest.spec.begin(), contest.spec.end(),
                                     [](const Cut& cut) { return cut.groups > 1; });
  contest.physical = strided == 0 ? contest.spec : cuts_of(sharding, dim, CutOrder::kPhysical);
  if (strided == 0) return contest;

  const std::optional<Cuts> plain = as_plain_cuts(contest.spec);
  const bool even = divides_evenly(contest.length, contest.spec);
  if (plain && even) {
    // Both readings agree; which plain order that is says whether kPhysical names it too.
    contest.spec = contest.candidates[0] = *plain;
  } else if (strided > 1 && !plain) {
    return undecided(dim, "its _StridedShards stand for no order of plain shards");
  } else if (contest.spec.size() == 2) {
    if (plain) contest.candidates.push_back(contest.physical);
  } else if (contest.spec.size() > 2 && !even) {
    if (contest.spec.size() > kMaxPermutedCuts)
      return undecided(dim, fmt::format("{} shards do not divide it", contest.spec.size()));
    for (Cuts& order : every_order(contest.physical))
      contest.candidates.push_back(std::move(order));
  }
  return contest;
}

// Whether a recorded size of 0 says nothing: where another dimension leaves a rank without
// elements, FSDP2 records 0 for the dimension that it shards (torch 2.13, _fsdp_common.py
// _get_dim_chunked_size).
bool is_empty_elsewhere(const Sharding& sharding, std::size_t dim, const LocalShape& rank) {
  for (std::size_t d = 0; d < rank.shape.size(); ++d)
    if (d != dim && rank.shape[d] == 0 &&
        size_after(sharding.shape[d], cuts_of(sharding, d, CutOrder::kSpec), rank.coordinate) == 0)
      return true;
  return false;
}

// Drops the candidates that a recorded size contradicts.
Status keep_fitting(const Sharding& sharding, Contest& contest, std::span<const LocalShape> known) {
  std::vector<bool> fits(contest.candidates.size(), true);
  for (const LocalShape& rank : known) {
    const std::int64_t recorded = rank.shape[contest.dim];
    bool any = false;
    for (std::size_t c = 0; c < fits.size(); ++c) {
      const bool equal =
          size_after(contest.length, contest.candidates[c], rank.coordinate) == recorded ||
          (recorded == 0 && is_empty_elsewhere(sharding, contest.dim, rank));
      any = any || equal;
      fits[c] = fits[c] && equal;
    }
    if (any) continue;
    std::vector<std::int64_t> expected;
    for (const Cuts& cuts : contest.candidates) {
      const std::int64_t size = size_after(contest.length, cuts, rank.coordinate);
      if (std::find(expected.begin(), expected.end(), size) == expected.end())
        expected.push_back(size);
    }
    return Error(ErrorCode::kIncomplete, "a local shape does not fit the placements")
        .expected(fmt::format("{} in dimension {} at mesh coordinate {}",
                              fmt::join(expected, " or "), contest.dim, to_string(rank.coordinate)))
        .found("local shape " + to_string(rank.shape));
  }
  std::vector<Cuts> kept;
  for (std::size_t c = 0; c < fits.size(); ++c)
    if (fits[c]) kept.push_back(std::move(contest.candidates[c]));
  contest.candidates = std::move(kept);
  if (contest.candidates.empty())
    return undecided(contest.dim, "the local shapes of the ranks follow different orders");
  return {};
}

// Whether two orders give every mesh coordinate the same elements. Both cut by the same mesh dims.
bool hold_the_same(const Sharding& sharding, const Contest& contest, const Cuts& a, const Cuts& b) {
  if (a == b) return true;
  Dims coordinate(sharding.placements.size(), 0);
  while (true) {
    if (intervals_after(contest.length, a, coordinate) !=
        intervals_after(contest.length, b, coordinate))
      return false;
    std::size_t c = 0;
    while (c < a.size() && ++coordinate[a[c].mesh_dim] == a[c].pieces)
      coordinate[a[c++].mesh_dim] = 0;
    if (c == a.size()) return true;
  }
}

Result<Verdict> judge(const Sharding& sharding, const Contest& contest) {
  const auto all_are = [&](const Cuts& order) {
    return std::all_of(contest.candidates.begin(), contest.candidates.end(), [&](const Cuts& cuts) {
      return hold_the_same(sharding, contest, cuts, order);
    });
  };
  const bool spec = all_are(contest.spec);
  const bool physical = all_are(contest.physical);
  if (spec && physical) return Verdict::kEither;
  if (spec) return Verdict::kSpec;
  if (physical) return Verdict::kPhysical;
  return undecided(contest.dim, contest.candidates.size() == 1
                                    ? "only an unknown order of shards fits the local shapes"
                                    : "orders that hold different elements fit the local shapes");
}

// A tensor without elements: whatever the order, no rank may hold any.
Result<CutOrder> decide_empty(const Sharding& sharding, std::span<const LocalShape> known) {
  for (const LocalShape& rank : known)
    if (!whole(rank.shape).empty())
      return Error(ErrorCode::kIncomplete, "a local shape does not fit the placements")
          .expected("no elements, as in global shape " + to_string(sharding.shape))
          .found(fmt::format("local shape {} at mesh coordinate {}", to_string(rank.shape),
                             to_string(rank.coordinate)));
  return CutOrder::kSpec;
}

}  // namespace

Result<CutOrder> decide_cut_order(const Sharding& sharding, std::span<const LocalShape> known) {
  for (const LocalShape& rank : known)
    if (rank.shape.size() != sharding.shape.size())
      return Error(ErrorCode::kIncomplete, "a local shape has another number of dimensions")
          .expected("as many as global shape " + to_string(sharding.shape))
          .found(fmt::format("local shape {} at mesh coordinate {}", to_string(rank.shape),
                             to_string(rank.coordinate)));
  if (whole(sharding.shape).empty()) return decide_empty(sharding, known);
  Verdict verdict = Verdict::kEither;
  for (std::size_t d = 0; d < sharding.shape.size(); ++d) {
    SHARDKIT_ASSIGN(Contest contest, make_contest(sharding, d));
    SHARDKIT_TRY(keep_fitting(sharding, contest, known));
    SHARDKIT_ASSIGN(const Verdict dim_verdict, judge(sharding, contest));
    if (dim_verdict == Verdict::kEither) continue;
    if (verdict != Verdict::kEither && verdict != dim_verdict)
      return undecided(d, "it follows another order than an earlier dimension");
    verdict = dim_verdict;
  }
  return verdict == Verdict::kPhysical ? CutOrder::kPhysical : CutOrder::kSpec;
}

}  // namespace shardkit
