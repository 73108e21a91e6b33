// Checks live tensors, and copies between them and snapshots.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "shardkit/snapshot/live_tensors_internal.h"
#include "shardkit/state/compare.h"
#include "shardkit/state/pair_walk_internal.h"
#include "shardkit/tensor/memory_range.h"
#include "shardkit/tensor/strided_copy.h"

namespace shardkit::internal {
namespace {

Error invalid(std::string what) { return Error(ErrorCode::kInvalidArgument, std::move(what)); }

/// REQUIRES: first_element() of both is ok.
void copy_elements(const Tensor& from, const Tensor& to) {
  const auto source = first_element(from);
  const auto target = first_element(to);
  if (!*source) return;
  strided_copy(item_bytes(from.dtype), from.shape, *source, from.strides, *target, to.strides);
}

Error mismatch(std::string_view name, std::string_view what) {
  return invalid(fmt::format("the tensor is not as the snapshot has it: {}", what)).of_tensor(name);
}

/// Whether a snapshot of one could be of the other; makes no allocation if so.
Status check_fits(const SnapshotEntry& saved, const LiveTensor& live) {
  if ((saved.spec != nullptr) != (live.spec != nullptr))
    return mismatch(live.name, saved.spec ? "DTensor against Tensor" : "Tensor against DTensor");
  if (saved.spec && saved.spec != *live.spec) {
    if (!saved.spec->mesh) return invalid("a spec without a mesh").of_tensor(saved.name);
    if (const auto what = sharding_difference(*saved.spec, **live.spec))
      return mismatch(live.name, *what);
  }
  if (const auto what = tensor_difference(saved.tensor, *live.local))
    return mismatch(live.name, "local " + *what);
  for (const Tensor* side : {&saved.tensor, live.local})
    if (auto bytes = first_element(*side); !bytes.ok())
      return std::move(bytes).error().of_tensor(live.name);
  return {};
}

Error aliased(std::string_view name) {
  return invalid("the tensor lies in the snapshot's memory").of_tensor(name);
}

/// Refuses a live tensor that lies in the memory of any entry. Allocates nothing, so no list of all
/// ranges is sorted: each tensor is compared with each entry. REQUIRES: check_fits() for all.
Status check_apart(const Dict& named_tensors, const Snapshot& snapshot) {
  std::array<MemoryRange, 256> saved;
  const std::span<const SnapshotEntry> entries(snapshot.entries);
  for (std::size_t begin = 0; begin < entries.size(); begin += saved.size()) {
    const auto some = entries.subspan(begin, std::min(saved.size(), entries.size() - begin));
    std::transform(some.begin(), some.end(), saved.begin(),
                   [](const SnapshotEntry& entry) { return memory_range(entry.tensor); });
    for (const auto& item : named_tensors.items) {
      SHARDKIT_ASSIGN(const LiveTensor live, live_tensor(item));
      const MemoryRange from = memory_range(*live.local);
      for (const MemoryRange& to : std::span(saved).first(some.size()))
        if (from.begin < to.end && to.begin < from.end) return aliased(live.name);
    }
  }
  return {};
}

}  // namespace

Result<LiveTensor> live_tensor(const std::pair<Value, Value>& item) {
  const auto* name = item.first.get_if<std::string>();
  if (!name) return invalid("a tensor's name must be a text").found(shown_key(item.first));
  if (const auto* tensor = item.second.get_if<Tensor>()) return LiveTensor{*name, tensor, nullptr};
  const auto* dtensor = item.second.get_if<DTensor>();
  if (!dtensor)
    return invalid("a snapshot is of Tensors and DTensors")
        .of_tensor(*name)
        .found(kind_name(item.second));
  if (!dtensor->sharding || !dtensor->sharding->mesh)
    return invalid("the DTensor has no mesh").of_tensor(*name);
  return LiveTensor{*name, &dtensor->local, &dtensor->sharding};
}

Result<Snapshot> save_tensors(const Dict& named_tensors, const MemoryOptions& memory) {
  std::unordered_set<std::string_view> names;
  for (const auto& item : named_tensors.items) {
    SHARDKIT_ASSIGN(const LiveTensor live, live_tensor(item));
    if (!names.insert(live.name).second)
      return invalid("two tensors have one name").of_tensor(live.name);
    if (auto bytes = first_element(*live.local); !bytes.ok())
      return std::move(bytes).error().of_tensor(live.name);
  }
  Snapshot snapshot;
  snapshot.entries.reserve(named_tensors.items.size());
  for (const auto& item : named_tensors.items) {
    SHARDKIT_ASSIGN(const LiveTensor live, live_tensor(item));
    auto made = make_unfilled_cpu_tensor(live.local->dtype, live.local->shape, memory);
    if (!made.ok()) return std::move(made).error().of_tensor(live.name);
    copy_elements(*live.local, *made);
    snapshot.entries.push_back(
        {std::string(live.name), *std::move(made), live.spec ? *live.spec : nullptr});
  }
  return snapshot;
}

Status refill_tensors(const Dict& named_tensors, Snapshot& snapshot) {
  const auto& items = named_tensors.items;
  if (items.size() != snapshot.entries.size())
    return invalid("the snapshot is of another number of tensors")
        .expected(std::to_string(snapshot.entries.size()))
        .found(std::to_string(items.size()));
  for (std::size_t i = 0; i < items.size(); ++i) {
    const SnapshotEntry& entry = snapshot.entries[i];
    SHARDKIT_ASSIGN(const LiveTensor live, live_tensor(items[i]));
    if (entry.name != live.name)
      return invalid("the snapshot has another name at this place")
          .expected(entry.name)
          .found(live.name);
    SHARDKIT_TRY(check_fits(entry, live));
    if (!is_contiguous(entry.tensor))
      return invalid("the tensor in the snapshot is not contiguous").of_tensor(live.name);
  }
  SHARDKIT_TRY(check_apart(named_tensors, snapshot));
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto live = live_tensor(items[i]);
    copy_elements(*live->local, snapshot.entries[i].tensor);
  }
  return {};
}

Result<CheckedLoad> CheckedLoad::make(std::span<const Dict> chunks,
                                      std::span<const Snapshot> snapshots) {
  CheckedLoad load;
  const Snapshot none;
  for (std::size_t i = 0; i < chunks.size(); ++i)
    SHARDKIT_TRY(load.add(chunks[i], i < snapshots.size() ? snapshots[i] : none));
  SHARDKIT_TRY(load.check_apart(snapshots));
  SHARDKIT_TRY(load.check_ties());
  return load;
}

Status CheckedLoad::add(const Dict& named_tensors, const Snapshot& snapshot) {
  std::unordered_map<std::string_view, const SnapshotEntry*> saved;
  for (const SnapshotEntry& entry : snapshot.entries)
    if (!saved.emplace(entry.name, &entry).second)
      return invalid("the snapshot holds two tensors of one name").of_tensor(entry.name);

  LoadReport& report = reports_.emplace_back();
  std::unordered_set<std::string_view> names;
  for (const auto& item : named_tensors.items) {
    SHARDKIT_ASSIGN(const LiveTensor live, live_tensor(item));
    if (!names.insert(live.name).second)
      return invalid("two tensors have one name").of_tensor(live.name);
    const auto at = saved.find(live.name);
    if (at == saved.end()) {
      report.skipped.emplace_back(live.name);
      continue;
    }
    SHARDKIT_TRY(check_fits(*at->second, live));
    if (!has_own_places(*live.local))
      return invalid("elements of the tensor to be written share memory").of_tensor(live.name);
    copies_.push_back({&at->second->tensor, live});
  }
  for (const SnapshotEntry& entry : snapshot.entries)
    if (!names.contains(entry.name)) report.unused.push_back(entry.name);
  return {};
}

// A later load may be of an entry that this one does not use, so all must stay as they are.
Status CheckedLoad::check_apart(std::span<const Snapshot> snapshots) const {
  std::vector<MemoryRange> ranges;
  for (const Snapshot& snapshot : snapshots)
    for (const SnapshotEntry& entry : snapshot.entries) {
      if (auto bytes = first_element(entry.tensor); !bytes.ok())
        return std::move(bytes).error().of_tensor(entry.name);
      ranges.push_back(memory_range(entry.tensor));
    }
  const MemoryRanges saved(std::move(ranges));
  for (const Copy& copy : copies_)
    if (saved.overlap(memory_range(*copy.to.local))) return aliased(copy.to.name);
  return {};
}

// One memory cannot hold two tensors: nothing would be left of the first.
Status CheckedLoad::check_ties() const {
  std::vector<const Tensor*> live;
  for (const Copy& copy : copies_) live.push_back(copy.to.local);
  const auto ties = find_ties(live);
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    if (!ties[i]) continue;
    const Copy& first = copies_[*ties[i]];
    SHARDKIT_ASSIGN(const auto difference, find_difference(*first.from, *copies_[i].from));
    if (difference)
      return invalid(fmt::format("the tensor lies in the memory of '{}', of which the snapshot has "
                                 "other elements",
                                 first.to.name))
          .of_tensor(copies_[i].to.name);
  }
  return {};
}

std::vector<LoadReport> CheckedLoad::run() && {
  for (const Copy& copy : copies_) copy_elements(*copy.from, *copy.to.local);
  return std::move(reports_);
}

}  // namespace shardkit::internal
