// Loads a sharded checkpoint into any number of ranks, gathers it, takes a snapshot, restores it.
//
//   load_and_gather CHECKPOINT RANKS   the ranks are threads
//   load_and_gather CHECKPOINT         this process is one of those that a launcher has started,
//   such
//                                      as torchrun, srun or mpirun: see launch/
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <numeric>
#include <vector>

#include "shardkit/base/checked_math.h"
#include "shardkit/checkpoint/open.h"
#include "shardkit/collective/gloo/gloo_group.h"
#include "shardkit/collective/launch_environment.h"
#include "shardkit/collective/thread_group.h"
#include "shardkit/distributed/gather.h"
#include "shardkit/distributed/load_into_ranks.h"
#include "shardkit/io/file_system.h"
#include "shardkit/snapshot/fsdp2_snapshot.h"
#include "shardkit/state/compare.h"

using namespace shardkit;

// A rank's part of every tensor, cut along dimension 0 over all ranks as FSDP2 does; no bytes yet.
Dict empty_state(const Catalog& catalog, const std::shared_ptr<const DeviceMesh>& mesh, int rank) {
  Dict state;
  for (const CatalogTensor& each : catalog.tensors) {
    auto sharding = std::make_shared<Sharding>();
    sharding->mesh = mesh;
    sharding->placements = {each.shape.empty() ? Placement(Replicate{}) : Placement(Shard{0})};
    sharding->shape = each.shape;
    Tensor local;
    local.dtype = each.dtype;
    local.shape = local_shape(*sharding, *mesh->coordinate_of(rank));
    local.strides = contiguous_strides(local.shape);
    local.storage = std::make_shared<Storage>(NoBytes(), static_cast<std::uint64_t>(local.bytes()));
    state.items.emplace_back(Value(each.name), DTensor{std::move(local), std::move(sharding)});
  }
  return state;
}

// What a rank does; a training engine would keep `state` and train.
Status run_rank(const Catalog& catalog, const std::shared_ptr<const DeviceMesh>& mesh,
                ProcessGroup& group) {
  Dict state = empty_state(catalog, mesh, group.rank());
  SHARDKIT_TRY(load_into_ranks(posix_file_system(), catalog, state, group));

  GatherOptions on_rank_0;
  on_rank_0.ranks_only = {0};
  SHARDKIT_ASSIGN(const Value whole, gather_state_dict(state, group, on_rank_0));
  if (group.rank() == 0)
    std::cout << "gathered " << whole.get_if<Dict>()->items.size() << " tensors from "
              << group.size() << " ranks\n";

  SHARDKIT_ASSIGN(const Snapshot snapshot, fsdp2_sharded_save_to_cpu(state));
  for (auto& [name, value] : state.items) {
    const Tensor& local = value.get_if<DTensor>()->local;
    if (local.numel() > 0)
      std::memset(local.storage->memory()->data, 0xff, static_cast<std::size_t>(local.bytes()));
  }
  SHARDKIT_TRY(fsdp2_sharded_load_from_cpu(state, snapshot, snapshot.global_spec(), group));

  SHARDKIT_ASSIGN(const Value again, gather_state_dict(state, group, on_rank_0));
  SHARDKIT_ASSIGN(const auto difference, find_difference(whole, again));
  if (difference) return Error(ErrorCode::kInternal, "restored otherwise: " + difference->what);
  if (group.rank() == 0) std::cout << "restored them from a snapshot\n";
  return {};
}

Status run(const char* path, int threads) {
  FileSystem& fs = posix_file_system();
  SHARDKIT_ASSIGN(const CheckpointFolder folder, discover_checkpoint(fs, path));
  SHARDKIT_ASSIGN(const Catalog catalog, open_checkpoint(fs, folder));
  const auto run_on_mesh = [&](ProcessGroup& group) -> Status {
    std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()));
    std::iota(all.begin(), all.end(), 0);
    SHARDKIT_ASSIGN(DeviceMesh mesh, DeviceMesh::make("cpu", {group.size()}, std::move(all)));
    return run_rank(catalog, std::make_shared<const DeviceMesh>(std::move(mesh)), group);
  };
  if (threads == 0) {
    SHARDKIT_ASSIGN(const LaunchEnvironment environment, read_launch_environment());
    SHARDKIT_ASSIGN(const auto group, make_gloo_group(environment));
    return run_on_mesh(*group);
  }
  for (Status& status : run_ranks(threads, run_on_mesh)) SHARDKIT_TRY(std::move(status));
  return {};
}

int main(int argc, char** argv) {
  const int threads = argc == 3 ? std::atoi(argv[2]) : 0;
  if (argc != 2 && threads < 1) {
    std::cerr << "usage: load_and_gather CHECKPOINT [RANKS]\n";
    return 2;
  }
  const Status status = run(argv[1], threads);
  if (status.ok()) return 0;
  std::cerr << status.error().message() << "\n";
  return 1;
}
