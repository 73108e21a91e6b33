// First everything that can fail on one rank alone, then the calls that move elements.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "shardkit/base/checked_math.h"
#include "shardkit/collective/agreement.h"
#include "shardkit/distributed/box_run_internal.h"
#include "shardkit/distributed/dtensor_layout_internal.h"
#include "shardkit/distributed/gather_boxes_internal.h"
#include "shardkit/distributed/gather_tensors_internal.h"
#include "shardkit/distributed/mesh_groups.h"
#include "shardkit/distributed/reduce_addends_internal.h"
#include "shardkit/state/memory.h"
#include "shardkit/state/pair_walk_internal.h"
#include "shardkit/tensor/strided_copy.h"

namespace shardkit::internal {
namespace {

using Bytes = std::span<std::byte>;

std::size_t to_size(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }

// What this rank does for one tensor.
struct Job {
  std::shared_ptr<const DeviceMesh> mesh;  // as held; null: the group of all ranks
  MeshDims reduce_dims = 0;                // nothing to be reduced: 0
  MeshDims gather_dims = 0;                // a DTensor with nothing to be gathered: 0
  std::optional<Reduction> reduction;
  std::optional<BoxGather> gather;
  std::size_t rank_in_gather = 0;
  bool wants = false;        // this rank gets the result
  std::vector<Tensor> mine;  // local tensors
  Tensor result;
  std::int64_t mine_bytes = 0;  // of all local tensors, dense
};

class Gathering {
 public:
  Gathering(ProcessGroup& group, const std::vector<int>& ranks_only)
      : group_(group), wanting_(to_size(group.size()), ranks_only.empty()) {
    for (const int rank : ranks_only)
      if (rank >= 0 && rank < group.size()) wanting_[static_cast<std::size_t>(rank)] = true;
  }

  Status plan(const std::vector<TensorForm>& tensors, const JointForms& joint);
  std::vector<MeshGroups::Request> requests() const;
  Status run(const MeshGroups& groups);
  std::vector<Tensor> take_results(const std::vector<TensorForm>& tensors);

 private:
  Status plan_dtensor(const StatePath& path, const DTensor& tensor, const JointForms& joint,
                      Job& job);
  Status plan_sharded(const StatePath& path, const ShardedTensor& tensor, const JointForms& joint,
                      Job& job);
  Status make_room(Job& job, DType dtype, const Dims& shape);
  Status run(Job& job, const MeshGroups& groups);
  Result<ProcessGroup*> group_of(const Job& job, MeshDims dims, const MeshGroups& groups) const;
  bool any_wants(const std::vector<int>& ranks) const;
  std::vector<bool> who_wants(const std::vector<int>& ranks) const;
  Bytes dense(const Job& job, Bytes into, std::size_t& used);

  ProcessGroup& group_;
  std::vector<bool> wanting_;
  std::map<std::string, Job> jobs_;  // by tuple_text(path): one order on all ranks
  std::int64_t room_bytes_ = 0;      // the most that any job needs
  Tensor room_;
};

bool Gathering::any_wants(const std::vector<int>& ranks) const {
  return std::any_of(ranks.begin(), ranks.end(),
                     [this](int rank) { return wanting_[static_cast<std::size_t>(rank)]; });
}

std::vector<bool> Gathering::who_wants(const std::vector<int>& ranks) const {
  std::vector<bool> wanting;
  for (const int rank : ranks) wanting.push_back(wanting_[static_cast<std::size_t>(rank)]);
  return wanting;
}

Status Gathering::plan(const std::vector<TensorForm>& tensors, const JointForms& joint) {
  for (const auto& [path, form] : tensors) {
    Job job;
    const auto* dtensor = form.get_if<DTensor>();
    Status status = dtensor ? plan_dtensor(path, *dtensor, joint, job)
                            : plan_sharded(path, *form.get_if<ShardedTensor>(), joint, job);
    if (!status.ok()) return std::move(status).error().of_tensor(shown_place(path));
    jobs_.emplace(tuple_text(path), std::move(job));
  }
  SHARDKIT_ASSIGN(room_, make_unfilled_cpu_tensor(DType::kUInt8, {room_bytes_}));
  return {};
}

Status Gathering::plan_dtensor(const StatePath& path, const DTensor& tensor,
                               const JointForms& joint, Job& job) {
  const Sharding& sharding = *tensor.sharding;
  const DeviceMesh& mesh = *sharding.mesh;
  job.mine = {tensor.local};
  job.result = tensor.local;
  if (!mesh.coordinate_of(group_.rank())) return {};
  for (std::size_t d = 0; d < mesh.shape().size(); ++d) {
    if (mesh.shape()[d] == 1) continue;
    if (sharded_dim(sharding.placements[d])) job.gather_dims |= MeshDims{1} << d;
    if (std::holds_alternative<Partial>(sharding.placements[d]))
      job.reduce_dims |= MeshDims{1} << d;
  }
  std::vector<Dims> shapes;
  for (const std::int64_t member : mesh.ranks())
    shapes.push_back(joint.find(path, static_cast<int>(member))->get_if<DTensor>()->local.shape);
  SHARDKIT_ASSIGN(const auto layout, DTensorLayout::decide(tensor.sharding, shapes));
  const MeshDims both = job.reduce_dims | job.gather_dims;
  if (!both) return {};
  job.mesh = layout.mesh();
  if (job.reduce_dims) {
    SHARDKIT_ASSIGN(job.reduction, Reduction::make(sharding, tensor.local.dtype));
  }
  if (!any_wants(ranks_along(*job.mesh, both, group_.rank()))) {
    job.reduce_dims = job.gather_dims = 0;
    return {};
  }
  const auto ranks = ranks_along(*job.mesh, job.gather_dims, group_.rank());
  std::vector<HeldParts> parts;
  for (const int rank : ranks) {
    const auto at = std::find(mesh.ranks().begin(), mesh.ranks().end(), rank);
    parts.push_back(
        {{shapes[static_cast<std::size_t>(at - mesh.ranks().begin())], layout.boxes(rank)}});
    if (rank == group_.rank()) job.rank_in_gather = parts.size() - 1;
  }
  SHARDKIT_ASSIGN(job.gather, BoxGather::make(tensor.local.dtype, sharding.shape, std::move(parts),
                                              who_wants(ranks)));
  return make_room(job, tensor.local.dtype, sharding.shape);
}

// Some order of boxes, to find one among many.
bool stands_before(const Box& a, const Box& b) {
  const auto before = [](const Dims& x, const Dims& y) {
    return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
  };
  return before(a.offset, b.offset) || (a.offset == b.offset && before(a.shape, b.shape));
}

Status Gathering::plan_sharded(const StatePath& path, const ShardedTensor& tensor,
                               const JointForms& joint, Job& job) {
  std::vector<HeldParts> parts;
  std::vector<int> ranks;
  std::vector<Box> listed;
  for (const ShardMetadata& shard : tensor.shards) listed.push_back(shard.box);
  std::sort(listed.begin(), listed.end(), stands_before);
  for (int rank = 0; rank < group_.size(); ++rank) {
    HeldParts held;
    for (const auto& shard : joint.find(path, rank)->get_if<ShardedTensor>()->local_shards) {
      const Box& box = shard.metadata.box;
      if (shard.tensor.dtype != tensor.dtype || shard.tensor.shape != box.shape)
        return Error(ErrorCode::kIncomplete,
                     fmt::format("rank {}'s shard is not of the dtype and size its metadata says",
                                 rank))
            .expected(fmt::format("{} {}", torch_name(tensor.dtype), to_string(box.shape)))
            .found(fmt::format("{} {}", torch_name(shard.tensor.dtype),
                               to_string(shard.tensor.shape)));
      if (!listed.empty() && !std::binary_search(listed.begin(), listed.end(), box, stands_before))
        return Error(ErrorCode::kIncomplete,
                     fmt::format("rank {}'s shard is none that the metadata lists", rank))
            .found(to_string(box));
      HeldPart part{box.shape, {}};
      if (!box.empty()) part.boxes.push_back({Dims(box.shape.size(), 0), box});
      held.push_back(std::move(part));
    }
    parts.push_back(std::move(held));
    ranks.push_back(rank);
  }
  for (const auto& shard : tensor.local_shards) job.mine.push_back(shard.tensor);
  job.rank_in_gather = static_cast<std::size_t>(group_.rank());
  SHARDKIT_ASSIGN(job.gather,
                  BoxGather::make(tensor.dtype, tensor.shape, std::move(parts), who_wants(ranks)));
  return make_room(job, tensor.dtype, tensor.shape);
}

Status Gathering::make_room(Job& job, DType dtype, const Dims& shape) {
  job.wants = wanting_[static_cast<std::size_t>(group_.rank())];
  job.result = {};
  if (job.wants) {
    SHARDKIT_ASSIGN(job.result, make_unfilled_cpu_tensor(dtype, shape));
  }
  for (const Tensor& tensor : job.mine) job.mine_bytes += tensor.bytes();
  const bool in_place = job.wants && job.gather->run_of(job.rank_in_gather);
  const bool must_pack = job.mine.size() != 1 || !is_contiguous(job.mine.front());
  std::int64_t bytes = job.gather->room_bytes(job.rank_in_gather);
  if (must_pack && (job.reduction || !in_place)) bytes += job.mine_bytes;
  if (job.reduction && job.gather_dims && !in_place) bytes += job.mine_bytes;
  if (job.reduction) bytes += Reduction::kRoomBytes;
  room_bytes_ = std::max(room_bytes_, bytes);
  return {};
}

std::vector<MeshGroups::Request> Gathering::requests() const {
  std::vector<MeshGroups::Request> requests;
  for (const auto& [path, job] : jobs_) {
    if (!job.mesh) continue;
    if (job.reduce_dims) requests.push_back({job.mesh, job.reduce_dims});
    if (job.gather_dims) requests.push_back({job.mesh, job.gather_dims});
  }
  return requests;
}

Status Gathering::run(const MeshGroups& groups) {
  for (auto& [path, job] : jobs_)
    if (job.gather) SHARDKIT_TRY(run(job, groups));
  return {};
}

Result<ProcessGroup*> Gathering::group_of(const Job& job, MeshDims dims,
                                          const MeshGroups& groups) const {
  if (!job.mesh) return &group_;
  return groups.group(*job.mesh, dims);
}

// This rank's tensors one behind the other: where they are, or copied to `into`.
Bytes Gathering::dense(const Job& job, Bytes into, std::size_t& used) {
  if (job.mine.size() == 1 && is_contiguous(job.mine.front())) return bytes_of(job.mine.front());
  if (into.empty()) {
    into = bytes_of(room_).subspan(used, to_size(job.mine_bytes));
    used += into.size();
  }
  std::size_t at = 0;
  for (const Tensor& tensor : job.mine) {
    if (tensor.numel() == 0) continue;
    strided_copy(item_bytes(tensor.dtype), tensor.shape, *first_element(tensor), tensor.strides,
                 into.data() + at, contiguous_strides(tensor.shape));
    at += to_size(tensor.bytes());
  }
  return into;
}

Status Gathering::run(Job& job, const MeshGroups& groups) {
  const Bytes whole = job.wants ? bytes_of(job.result) : Bytes();
  const auto at = job.wants ? job.gather->run_of(job.rank_in_gather) : std::nullopt;
  const Bytes place = at ? whole.subspan(to_size(*at), to_size(job.mine_bytes)) : Bytes();
  std::size_t used = 0;
  Bytes mine = dense(job, job.reduction ? Bytes() : place, used);
  if (job.reduction) {
    SHARDKIT_ASSIGN(ProcessGroup * group, group_of(job, job.reduce_dims, groups));
    const Bytes room = bytes_of(room_).subspan(used, to_size(Reduction::kRoomBytes));
    used += room.size();
    Bytes reduced = place;
    if (place.empty() && job.gather_dims) {
      reduced = bytes_of(room_).subspan(used, to_size(job.mine_bytes));
      used += reduced.size();
    }
    SHARDKIT_TRY(job.reduction->run(*group, mine, reduced, room));
    mine = reduced;
  }
  if (job.mesh && !job.gather_dims) return {};
  if (!job.gather->is_wanted()) return {};
  SHARDKIT_ASSIGN(ProcessGroup * group, group_of(job, job.gather_dims, groups));
  return job.gather->run(*group, mine, whole, bytes_of(room_).subspan(used));
}

std::vector<Tensor> Gathering::take_results(const std::vector<TensorForm>& tensors) {
  std::vector<Tensor> results;
  for (const TensorForm& tensor : tensors)
    results.push_back(std::move(jobs_.at(tuple_text(tensor.path)).result));
  return results;
}

Status check_in_memory(const std::vector<TensorForm>& tensors) {
  for (const auto& [path, form] : tensors)
    for (const Tensor* local : local_tensors(form))
      if (auto bytes = first_element(*local); !bytes.ok())
        return std::move(bytes).error().of_tensor(shown_place(path));
  return {};
}

}  // namespace

Result<std::vector<Tensor>> gather_tensors(Result<std::vector<TensorForm>> tensors,
                                           ProcessGroup& group,
                                           const std::vector<int>& ranks_only) {
  if (tensors.ok())
    if (Status status = check_in_memory(*tensors); !status.ok())
      tensors = std::move(status).error();
  SHARDKIT_ASSIGN(const JointForms joint,
                  JointForms::exchange(group, tensors, fmt::format("ranks_only {}", ranks_only)));
  Gathering gathering(group, ranks_only);
  Result<std::vector<MeshGroups::Request>> requests = std::vector<MeshGroups::Request>();
  if (Status status = gathering.plan(*tensors, joint); status.ok()) {
    requests = gathering.requests();
  } else {
    requests = std::move(status).error();
  }
  SHARDKIT_ASSIGN(MeshGroups groups, MeshGroups::make(group, std::move(requests)));
  Status status = gathering.run(groups);
  // Who still waits in a subgroup for a rank that failed learns of it at once.
  groups.leave();
  SHARDKIT_TRY(agree_on_status(group, std::move(status)));
  return gathering.take_results(*tensors);
}

}  // namespace shardkit::internal
