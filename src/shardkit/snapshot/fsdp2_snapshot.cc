// Saving and loading across ranks and threads; live_tensors.cc does the copying.
#include "shardkit/snapshot/fsdp2_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "shardkit/collective/agreement.h"
#include "shardkit/collective/message.h"
#include "shardkit/snapshot/live_tensors_internal.h"

namespace shardkit {
namespace {

/// Runs `fn` in a thread; an exception there, or the lack of a thread, becomes an error.
template <class T, class Fn>
std::future<T> run_in_background(Fn fn) {
  try {
    return std::async(std::launch::async, [fn = std::move(fn)]() mutable -> T {
      try {
        return fn();
      } catch (const std::bad_alloc&) {
        return Error(ErrorCode::kLimit, "there is not enough memory");
      } catch (const std::exception& e) {
        return Error(ErrorCode::kInternal, e.what());
      }
    });
  } catch (const std::system_error&) {
    std::promise<T> promise;
    promise.set_value(
        Error(ErrorCode::kLimit, "the system starts no thread to work in the background"));
    return promise.get_future();
  }
}

Status check_mesh(const Dict& named_tensors, const std::shared_ptr<const Sharding>& target_spec) {
  for (const auto& item : named_tensors.items) {
    SHARDKIT_ASSIGN(const internal::LiveTensor live, internal::live_tensor(item));
    if (!live.spec) continue;
    if (!target_spec || !target_spec->mesh)
      return Error(ErrorCode::kInvalidArgument,
                   "the model is sharded, and the target spec is absent or has no mesh")
          .of_tensor(live.name);
    const DeviceMesh& mesh = *(*live.spec)->mesh;
    if (mesh == *target_spec->mesh) return {};
    return Error(ErrorCode::kInvalidArgument, "the model is on another mesh than the target spec")
        .of_tensor(live.name)
        .expected(target_spec->mesh->device_type() + " " + to_string(*target_spec->mesh))
        .found(mesh.device_type() + " " + to_string(mesh));
  }
  if (target_spec)
    return Error(ErrorCode::kInvalidArgument,
                 "the model holds no DTensor to be on the target mesh");
  return {};
}

Result<internal::CheckedLoad> check_load(const Dict& named_tensors, const Snapshot& snapshot,
                                         const std::shared_ptr<const Sharding>& target_spec) {
  SHARDKIT_TRY(check_mesh(named_tensors, target_spec));
  return internal::CheckedLoad::make(std::span(&named_tensors, 1), std::span(&snapshot, 1));
}

/// What tells a DTensor that ranks share from another one of its name.
std::string identity(const internal::LiveTensor& live) {
  const DeviceMesh& mesh = *(*live.spec)->mesh;
  MessageWriter out;
  out.put(live.name);
  out.put(mesh.device_type());
  for (const std::int64_t rank : mesh.ranks()) out.put(rank);
  return std::move(out).take();
}

/// The identities of the DTensors that a rank's load does not touch; mostly none.
std::string encode_skipped(const Dict& named_tensors, const std::vector<std::string>& names) {
  const std::unordered_set<std::string_view> skipped(names.begin(), names.end());
  MessageWriter out;
  for (const auto& item : named_tensors.items) {
    const auto live = internal::live_tensor(item);
    if (live->spec && skipped.contains(live->name)) out.put(identity(*live));
  }
  return std::move(out).take();
}

/// That no rank skips a part of a DTensor of which this one puts its part back.
/// @param messages  encode_skipped() by rank
Status check_skipped(const Dict& named_tensors, const std::vector<std::string>& own_names,
                     const std::vector<std::string>& messages) {
  std::unordered_map<std::string, std::size_t> skippers;
  for (std::size_t rank = 0; rank < messages.size(); ++rank)
    for (MessageReader in(messages[rank]); !in.expect_end().ok();) {
      SHARDKIT_ASSIGN(std::string skipped, in.text());
      skippers.emplace(std::move(skipped), rank);
    }
  const std::unordered_set<std::string_view> own(own_names.begin(), own_names.end());
  for (const auto& item : named_tensors.items) {
    const auto live = internal::live_tensor(item);
    if (!live->spec || own.contains(live->name)) continue;
    const auto found = skippers.find(identity(*live));
    if (found == skippers.end()) continue;
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("the snapshot of rank {} lacks its part of a tensor that is to be put "
                             "back",
                             found->second))
        .of_tensor(live->name);
  }
  return {};
}

/// Whether all ranks may load: their own checks, and those of one against the other.
Status agree_on_load(ProcessGroup& group, const Dict& named_tensors,
                     const Result<internal::CheckedLoad>& load) {
  Result<std::string> mine = std::string();
  if (load.ok())
    mine = encode_skipped(named_tensors, load->skipped());
  else
    mine = load.error();
  SHARDKIT_ASSIGN(const auto messages, exchange_messages(group, std::move(mine)));
  const bool all_empty = std::all_of(messages.begin(), messages.end(),
                                     [](const std::string& message) { return message.empty(); });
  if (all_empty) return {};
  return agree_on_status(group, check_skipped(named_tensors, load->skipped(), messages));
}

}  // namespace

Result<Snapshot> fsdp2_sharded_save_to_cpu(const Dict& named_tensors, const MemoryOptions& memory) {
  return internal::save_tensors(named_tensors, memory);
}

Status refill_snapshot(const Dict& named_tensors, Snapshot& snapshot) {
  return internal::refill_tensors(named_tensors, snapshot);
}

std::future<Result<Snapshot>> fsdp2_sharded_save_to_cpu_async(Dict named_tensors,
                                                              MemoryOptions memory) {
  return run_in_background<Result<Snapshot>>(
      [named_tensors = std::move(named_tensors), memory = std::move(memory)] {
        return internal::save_tensors(named_tensors, memory);
      });
}

std::future<Status> refill_snapshot_async(Dict named_tensors, Snapshot& snapshot) {
  return run_in_background<Status>([named_tensors = std::move(named_tensors), &snapshot] {
    return internal::refill_tensors(named_tensors, snapshot);
  });
}

Result<LoadReport> fsdp2_sharded_load_from_cpu(const Dict& named_tensors, const Snapshot& snapshot,
                                               const std::shared_ptr<const Sharding>& target_spec,
                                               ProcessGroup& group) {
  auto load = check_load(named_tensors, snapshot, target_spec);
  SHARDKIT_TRY(agree_on_load(group, named_tensors, load));
  std::vector<LoadReport> reports = std::move(*load).run();
  SHARDKIT_TRY(group.barrier());
  return std::move(reports.front());
}

}  // namespace shardkit
