// CountingGroup: a process group that counts the bytes of elements that reach its rank.
#pragma once

#include <cstdint>

#include "shardkit/collective/process_group.h"

namespace shardkit::testing {

/// Hands every call to another group, whose rank it is.
class CountingGroup : public ProcessGroup {
 public:
  explicit CountingGroup(ProcessGroup& group)
      : ProcessGroup(group.rank(), group.size(), {}), group_(group) {}

  std::uint64_t scattered_bytes() const { return bytes_; }
  int scatters() const { return scatters_; }

 private:
  Status run(const CollectiveCall& call, TimePoint) override {
    const std::span<std::byte> mine = call.root < 0
                                          ? std::span<std::byte>()
                                          : call.received_from(static_cast<std::size_t>(call.root));
    switch (call.op) {
      case CollectiveOp::kScatter:
        bytes_ += mine.size();
        ++scatters_;
        return group_.scatter(call.send, mine, call.root);
      case CollectiveOp::kAllGather:
        return group_.all_gather(call.send.empty() ? std::span<const std::byte>() : call.send[0],
                                 call.receive);
      default: return Error(ErrorCode::kInternal, "the counting group knows no such call");
    }
  }
  Result<std::unique_ptr<ProcessGroup>> run_split(const CollectiveCall&, TimePoint) override {
    return Error(ErrorCode::kInternal, "the counting group makes no subgroups");
  }
  Error refuse(Error error) override { return error; }

  ProcessGroup& group_;
  std::uint64_t bytes_ = 0;
  int scatters_ = 0;
};

}  // namespace shardkit::testing
