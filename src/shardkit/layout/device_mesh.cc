// DeviceMesh: making one from untrusted numbers, and finding a rank in it.
#include "shardkit/layout/device_mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "shardkit/base/checked_math.h"

namespace shardkit {

Result<DeviceMesh> DeviceMesh::make(std::string device_type, Dims shape,
                                    std::vector<std::int64_t> ranks,
                                    std::vector<std::string> dim_names) {
  for (const std::int64_t size : shape)
    if (size < 1)
      return Error(ErrorCode::kCorrupt, "a device mesh has a dimension without ranks")
          .found("mesh shape " + to_string(shape));
  const auto cells = element_count(shape);
  if (!cells || static_cast<std::uint64_t>(*cells) != ranks.size())
    return Error(ErrorCode::kCorrupt, "a device mesh's shape does not fit its ranks")
        .expected(cells ? fmt::format("{} ranks", *cells) : "a shape that does not overflow")
        .found(fmt::format("{} ranks, mesh shape {}", ranks.size(), to_string(shape)));
  if (!dim_names.empty() && dim_names.size() != shape.size())
    return Error(ErrorCode::kCorrupt, "a device mesh's names do not fit its dimensions")
        .expected(fmt::format("{} names", shape.size()))
        .found(std::to_string(dim_names.size()));

  DeviceMesh mesh;
  mesh.cell_of_rank_.reserve(ranks.size());
  for (std::size_t cell = 0; cell < ranks.size(); ++cell) {
    if (ranks[cell] < 0)
      return Error(ErrorCode::kCorrupt, "a device mesh holds a negative rank")
          .found(std::to_string(ranks[cell]));
    mesh.cell_of_rank_.emplace_back(ranks[cell], static_cast<std::int64_t>(cell));
  }
  std::sort(mesh.cell_of_rank_.begin(), mesh.cell_of_rank_.end());
  const auto twice =
      std::adjacent_find(mesh.cell_of_rank_.begin(), mesh.cell_of_rank_.end(),
                         [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != mesh.cell_of_rank_.end())
    return Error(ErrorCode::kCorrupt, "a device mesh holds a rank twice")
        .found(fmt::format("rank {}", twice->first));

  mesh.device_type_ = std::move(device_type);
  mesh.shape_ = std::move(shape);
  mesh.ranks_ = std::move(ranks);
  mesh.dim_names_ = std::move(dim_names);
  return mesh;
}

std::optional<Dims> DeviceMesh::coordinate_of(std::int64_t rank) const {
  const auto at =
      std::lower_bound(cell_of_rank_.begin(), cell_of_rank_.end(), rank,
                       [](const auto& entry, std::int64_t wanted) { return entry.first < wanted; });
  if (at == cell_of_rank_.end() || at->first != rank) return std::nullopt;
  Dims coordinate(shape_.size(), 0);
  std::int64_t rest = at->second;
  for (std::size_t d = shape_.size(); d-- > 0;) {
    coordinate[d] = rest % shape_[d];
    rest /= shape_[d];
  }
  return coordinate;
}

std::optional<Dims> DeviceMesh::group_position_of(std::int64_t rank) const {
  const std::optional<Dims> coordinate = coordinate_of(rank);
  if (!coordinate) return std::nullopt;
  const Dims strides = contiguous_strides(shape_);
  std::int64_t cell = 0;
  for (std::size_t d = 0; d < shape_.size(); ++d) cell += (*coordinate)[d] * strides[d];
  Dims position(shape_.size(), 0);
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    const std::int64_t line = cell - (*coordinate)[d] * strides[d];
    for (std::int64_t i = 0; i < shape_[d]; ++i)
      position[d] += ranks_[static_cast<std::size_t>(line + i * strides[d])] < rank;
  }
  return position;
}

bool DeviceMesh::counts_upwards(std::size_t dim) const {
  const std::int64_t step = contiguous_strides(shape_)[dim];
  for (std::size_t cell = 0; cell < ranks_.size(); ++cell) {
    const std::int64_t coordinate = static_cast<std::int64_t>(cell) / step % shape_[dim];
    if (coordinate > 0 && ranks_[cell - static_cast<std::size_t>(step)] > ranks_[cell])
      return false;
  }
  return true;
}

std::string to_string(const DeviceMesh& mesh) {
  constexpr std::size_t kShown = 16;  // a line that still reads; larger meshes end in "..."
  std::string text =
      mesh.shape().empty() ? "0-d mesh" : fmt::format("{}", fmt::join(mesh.shape(), "x"));
  if (!mesh.dim_names().empty()) text += fmt::format(" ({})", fmt::join(mesh.dim_names(), ", "));
  const std::vector<std::int64_t>& ranks = mesh.ranks();
  if (ranks.size() == 1) return text + fmt::format(" of rank {}", ranks.front());
  bool in_sequence = true;
  for (std::size_t i = 1; i < ranks.size(); ++i)
    in_sequence = in_sequence && ranks[i - 1] + 1 == ranks[i];
  if (in_sequence) return text + fmt::format(" of ranks {}-{}", ranks.front(), ranks.back());
  const auto shown = ranks.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, ranks.size()));
  return text + fmt::format(" of ranks {}{}", fmt::join(ranks.begin(), shown, ","),
                            ranks.size() > kShown ? ",..." : "");
}

}  // namespace shardkit
