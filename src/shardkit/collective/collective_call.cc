// CollectiveCall: do the ranks' calls fit together?
#include "shardkit/collective/collective_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

namespace shardkit {
namespace {

std::string_view name_of(Accumulation op) {
  switch (op) {
    case Accumulation::kSum: return "sum";
    case Accumulation::kAvg: return "avg";
    case Accumulation::kMin: return "min";
    case Accumulation::kMax: return "max";
    case Accumulation::kProduct: return "product";
  }
  return "?";
}

// What all ranks must say alike.
std::string common_part(const CallShape& call) {
  if (call.op == CollectiveOp::kAllReduce)
    return fmt::format("all_reduce({}) of {} bytes of {}", name_of(call.accumulation),
                       call.buffer_bytes, torch_name(call.dtype));
  if (call.root >= 0) return fmt::format("{} with root {}", to_string(call.op), call.root);
  return std::string(to_string(call.op));
}

Status check_sizes(std::span<const CallShape> calls) {
  for (std::size_t from = 0; from < calls.size(); ++from)
    for (std::size_t to = 0; to < calls.size(); ++to) {
      const std::uint64_t sent = calls[from].sent_to(to);
      const std::uint64_t received = calls[to].received_from(from);
      if (sent != received)
        return Error(ErrorCode::kInvalidArgument,
                     fmt::format("{}: rank {} has {} bytes for rank {}, which expects {}",
                                 to_string(calls[from].op), from, sent, to, received));
    }
  return {};
}

Status check_subgroups(std::span<const CallShape> calls) {
  for (std::size_t rank = 0; rank < calls.size(); ++rank)
    for (const int other : calls[rank].ranks) {
      const auto& theirs = calls[static_cast<std::size_t>(other)].ranks;
      if (theirs != calls[rank].ranks)
        return Error(
            ErrorCode::kInvalidArgument,
            fmt::format("split: rank {} wants the subgroup [{}], its rank {} wants [{}]", rank,
                        fmt::join(calls[rank].ranks, ", "), other, fmt::join(theirs, ", ")));
    }
  return {};
}

}  // namespace

std::string_view to_string(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kBroadcast: return "broadcast";
    case CollectiveOp::kAllGather: return "all_gather";
    case CollectiveOp::kGather: return "gather";
    case CollectiveOp::kScatter: return "scatter";
    case CollectiveOp::kAllToAll: return "all_to_all";
    case CollectiveOp::kAllReduce: return "all_reduce";
    case CollectiveOp::kBarrier: return "barrier";
    case CollectiveOp::kSplit: return "split";
  }
  return "?";
}

CallShape shape_of(const CollectiveCall& call) {
  CallShape shape;
  shape.op = call.op;
  shape.root = call.root;
  shape.accumulation = call.accumulation;
  shape.dtype = call.dtype;
  shape.buffer_bytes = call.buffer.size();
  for (const auto& part : call.send) shape.sent_bytes.push_back(part.size());
  for (const auto& part : call.receive) shape.received_bytes.push_back(part.size());
  shape.ranks = call.ranks;
  return shape;
}

Status check_calls_fit(std::span<const CallShape> calls) {
  const std::string first = common_part(calls[0]);
  for (std::size_t rank = 1; rank < calls.size(); ++rank)
    if (const std::string other = common_part(calls[rank]); other != first)
      return Error(ErrorCode::kInvalidArgument,
                   fmt::format("rank 0 called {}, rank {} called {}", first, rank, other));
  SHARDKIT_TRY(check_sizes(calls));
  return check_subgroups(calls);
}

}  // namespace shardkit
