// CollectiveCall: one rank's part of a collective call, in the one form that backends carry out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/tensor/accumulate.h"
#include "shardkit/tensor/dtype.h"

namespace shardkit {

enum class CollectiveOp {
  kBroadcast,
  kAllGather,
  kGather,
  kScatter,
  kAllToAll,
  kAllReduce,
  kBarrier,
  kSplit,
};

/// "broadcast", "all_gather", ...
std::string_view to_string(CollectiveOp op);

/// Whatever the function, moving data is one thing: each rank has some bytes for each other rank,
/// and room for those that come from it. Only all_reduce, barrier and split are not of that form.
struct CollectiveCall {
  CollectiveOp op = CollectiveOp::kBarrier;
  int root = -1;  ///< of broadcast, gather, scatter

  /// By receiver, this rank included; one entry for each rank, or none: nothing for anyone. Where
  /// the part for this rank itself is the very bytes that it receives, they are in place already.
  std::vector<std::span<const std::byte>> send;
  /// By sender, in the same way.
  std::vector<std::span<std::byte>> receive;

  // all_reduce
  Accumulation accumulation = Accumulation::kSum;
  DType dtype = DType::kFloat32;
  std::span<std::byte> buffer;

  std::vector<int> ranks;  ///< of split: this rank's subgroup

  std::span<const std::byte> sent_to(std::size_t rank) const {
    return send.empty() ? std::span<const std::byte>() : send[rank];
  }
  std::span<std::byte> received_from(std::size_t rank) const {
    return receive.empty() ? std::span<std::byte>() : receive[rank];
  }
};

/// What of a call must fit the other ranks' calls: all but the bytes.
struct CallShape {
  CollectiveOp op = CollectiveOp::kBarrier;
  int root = -1;
  Accumulation accumulation = Accumulation::kSum;
  DType dtype = DType::kFloat32;
  std::uint64_t buffer_bytes = 0;
  std::vector<std::uint64_t> sent_bytes;      ///< by receiver; one for each rank, or none
  std::vector<std::uint64_t> received_bytes;  ///< by sender, in the same way
  std::vector<int> ranks;

  std::uint64_t sent_to(std::size_t rank) const {
    return sent_bytes.empty() ? 0 : sent_bytes[rank];
  }
  std::uint64_t received_from(std::size_t rank) const {
    return received_bytes.empty() ? 0 : received_bytes[rank];
  }
};

CallShape shape_of(const CollectiveCall& call);

/// Whether the ranks' calls are parts of one: the same function, root and dtype, sizes that fit,
/// and subgroups on which their ranks agree. The first rank that differs is named, so that the same
/// calls give the same error.
///
/// @param calls  by rank, each right in itself; at least one
/// @error kInvalidArgument
Status check_calls_fit(std::span<const CallShape> calls);

}  // namespace shardkit
