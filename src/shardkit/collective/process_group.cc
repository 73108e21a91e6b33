// ProcessGroup: checks a call in itself and brings it into the form that backends carry out.
#include "shardkit/collective/process_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace shardkit {
namespace {

// A deadline further off is none; without a limit, the sum with the present could overflow.
constexpr std::chrono::milliseconds kLongestTimeout = std::chrono::hours(24 * 365);

}  // namespace

Status ProcessGroup::broadcast(Writable buffer, int root, Timeout timeout) {
  CollectiveCall call;
  call.op = CollectiveOp::kBroadcast;
  call.root = root;
  const auto ranks = static_cast<std::size_t>(size_);
  if (rank_ == root) {
    call.send.assign(ranks, buffer);
    call.send[static_cast<std::size_t>(rank_)] = {};
  } else if (root >= 0 && root < size_) {
    call.receive.resize(ranks);
    call.receive[static_cast<std::size_t>(root)] = buffer;
  }
  return run_rooted(call, timeout);
}

Status ProcessGroup::all_gather(Readable mine, std::span<const Writable> all, Timeout timeout) {
  CollectiveCall call;
  call.op = CollectiveOp::kAllGather;
  const auto ranks = static_cast<std::size_t>(size_);
  if (all.size() != ranks)
    return wrong(call, fmt::format("{} parts for {} ranks", all.size(), size_));
  call.send.assign(ranks, mine);
  call.receive.assign(all.begin(), all.end());
  return run(call, deadline_after(timeout));
}

Status ProcessGroup::all_gather(Readable mine, Writable all, Timeout timeout) {
  const auto ranks = static_cast<std::size_t>(size_);
  if (all.size() % ranks != 0 || all.size() / ranks != mine.size()) {
    CollectiveCall call;
    call.op = CollectiveOp::kAllGather;
    return wrong(call, fmt::format("{} bytes cannot hold {} times {} bytes", all.size(), size_,
                                   mine.size()));
  }
  std::vector<Writable> parts(ranks);
  for (std::size_t i = 0; i < ranks; ++i) parts[i] = all.subspan(i * mine.size(), mine.size());
  return all_gather(mine, parts, timeout);
}

Status ProcessGroup::gather(Readable mine, std::span<const Writable> all, int root,
                            Timeout timeout) {
  CollectiveCall call;
  call.op = CollectiveOp::kGather;
  call.root = root;
  const auto ranks = static_cast<std::size_t>(size_);
  if (all.size() != (rank_ == root ? ranks : 0))
    return wrong(call, fmt::format("{} parts for {} ranks, root {}", all.size(), size_, root));
  if (root >= 0 && root < size_) {
    call.send.resize(ranks);
    call.send[static_cast<std::size_t>(root)] = mine;
  }
  call.receive.assign(all.begin(), all.end());
  return run_rooted(call, timeout);
}

Status ProcessGroup::scatter(std::span<const Readable> all, Writable mine, int root,
                             Timeout timeout) {
  CollectiveCall call;
  call.op = CollectiveOp::kScatter;
  call.root = root;
  const auto ranks = static_cast<std::size_t>(size_);
  if (all.size() != (rank_ == root ? ranks : 0))
    return wrong(call, fmt::format("{} parts for {} ranks, root {}", all.size(), size_, root));
  call.send.assign(all.begin(), all.end());
  if (root >= 0 && root < size_) {
    call.receive.resize(ranks);
    call.receive[static_cast<std::size_t>(root)] = mine;
  }
  return run_rooted(call, timeout);
}

Status ProcessGroup::all_to_all(std::span<const Readable> send, std::span<const Writable> receive,
                                Timeout timeout) {
  CollectiveCall call;
  call.op = CollectiveOp::kAllToAll;
  const auto ranks = static_cast<std::size_t>(size_);
  if (send.size() != ranks || receive.size() != ranks)
    return wrong(call,
                 fmt::format("{} and {} parts for {} ranks", send.size(), receive.size(), size_));
  call.send.assign(send.begin(), send.end());
  call.receive.assign(receive.begin(), receive.end());
  return run(call, deadline_after(timeout));
}

Status ProcessGroup::all_reduce(Accumulation op, DType dtype, Writable buffer, Timeout timeout) {
  CollectiveCall call;
  call.op = CollectiveOp::kAllReduce;
  call.accumulation = op;
  call.dtype = dtype;
  call.buffer = buffer;
  if (auto wide = accumulator_dtype(op, dtype); !wide.ok())
    return refuse(Error(wide.error().code(),
                        fmt::format("all_reduce: rank {}: {}", rank_, wide.error().what())));
  if (buffer.size() % static_cast<std::size_t>(item_bytes(dtype)) != 0)
    return wrong(call, fmt::format("{} bytes are no whole number of {} elements", buffer.size(),
                                   torch_name(dtype)));
  return run(call, deadline_after(timeout));
}

Status ProcessGroup::barrier(Timeout timeout) {
  return run(CollectiveCall{}, deadline_after(timeout));
}

Result<std::unique_ptr<ProcessGroup>> ProcessGroup::split(std::span<const int> ranks,
                                                          Timeout timeout) {
  return split_until(ranks, deadline_after(timeout));
}

Result<std::unique_ptr<ProcessGroup>> ProcessGroup::split(int color, int key, Timeout timeout) {
  const TimePoint deadline = deadline_after(timeout);
  struct Choice {
    int color;
    int key;
  };
  const auto count = static_cast<std::size_t>(size_);
  const Choice mine{color, key};
  std::vector<Choice> choices(count);
  CollectiveCall call;
  call.op = CollectiveOp::kAllGather;
  call.send.assign(count, std::as_bytes(std::span(&mine, 1)));
  for (Choice& choice : choices)
    call.receive.push_back(std::as_writable_bytes(std::span(&choice, 1)));
  SHARDKIT_TRY(run(call, deadline));

  std::vector<int> ranks;
  for (std::size_t i = 0; color >= 0 && i < count; ++i)
    if (choices[i].color == color) ranks.push_back(static_cast<int>(i));
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return choices[static_cast<std::size_t>(a)].key < choices[static_cast<std::size_t>(b)].key;
  });
  return split_until(ranks, deadline);
}

Result<std::unique_ptr<ProcessGroup>> ProcessGroup::split_until(std::span<const int> ranks,
                                                                TimePoint deadline) {
  CollectiveCall call;
  call.op = CollectiveOp::kSplit;
  call.ranks.assign(ranks.begin(), ranks.end());
  std::vector<int> sorted = call.ranks;
  std::sort(sorted.begin(), sorted.end());
  const bool valid =
      sorted.empty() || (sorted.front() >= 0 && sorted.back() < size_ &&
                         std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end() &&
                         std::binary_search(sorted.begin(), sorted.end(), rank_));
  if (!valid)
    return wrong(call, fmt::format("[{}] is no subgroup of {} ranks: it must have different ones, "
                                   "this one among them",
                                   fmt::join(call.ranks, ", "), size_));
  return run_split(call, deadline);
}

Status ProcessGroup::run_rooted(const CollectiveCall& call, Timeout timeout) {
  if (call.root < 0 || call.root >= size_)
    return wrong(call, fmt::format("root {} is no rank of a group of {}", call.root, size_));
  return run(call, deadline_after(timeout));
}

Error ProcessGroup::wrong(const CollectiveCall& call, std::string what) {
  return refuse(Error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: rank {}: {}", to_string(call.op), rank_, what)));
}

ProcessGroup::TimePoint ProcessGroup::deadline_after(Timeout timeout) const {
  const auto span =
      std::clamp(timeout.value_or(options_.timeout), std::chrono::milliseconds(0), kLongestTimeout);
  return std::chrono::steady_clock::now() + span;
}

}  // namespace shardkit
