// DeviceMesh: which rank stands at which coordinate of an N-dimensional grid.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shardkit/base/dims.h"
#include "shardkit/base/result.h"

namespace shardkit {

/// A grid of ranks (torch/distributed/device_mesh.py). Immutable once made.
///
/// Names are labels and decide nothing; two meshes are equal when rank array and device type are.
class DeviceMesh {
 public:
  /// @param shape      sizes of the mesh dimensions, each >= 1; no dimension: a mesh of one rank
  /// @param ranks      the rank at each coordinate, row-major; as many as shape has cells, each
  ///                   >= 0, none twice
  /// @param dim_names  empty, or one for each dimension
  /// @error kCorrupt a condition above does not hold
  static Result<DeviceMesh> make(std::string device_type, Dims shape,
                                 std::vector<std::int64_t> ranks,
                                 std::vector<std::string> dim_names = {});

  const std::string& device_type() const { return device_type_; }
  const Dims& shape() const { return shape_; }
  const std::vector<std::int64_t>& ranks() const { return ranks_; }
  const std::vector<std::string>& dim_names() const { return dim_names_; }

  /// Where `rank` stands, one coordinate for each mesh dimension; nothing if it is no member.
  /// Logarithmic in the mesh's size.
  std::optional<Dims> coordinate_of(std::int64_t rank) const;

  /// Where `rank` stands in the process groups that PyTorch makes of the mesh's lines: its position
  /// among the *sorted* ranks of its line in each mesh dimension (torch 2.13, distributed_c10d.py
  /// _new_group_with_tag sorts them). The same as coordinate_of() unless a line's ranks do not
  /// count upwards; then two ranks may even share a position.
  std::optional<Dims> group_position_of(std::int64_t rank) const;

  /// Whether the ranks of every line along `dim` count upwards. Linear in the mesh's size.
  bool counts_upwards(std::size_t dim) const;

  friend bool operator==(const DeviceMesh& a, const DeviceMesh& b) {
    return a.device_type_ == b.device_type_ && a.shape_ == b.shape_ && a.ranks_ == b.ranks_;
  }

 private:
  DeviceMesh() = default;

  std::string device_type_;
  Dims shape_;
  std::vector<std::int64_t> ranks_;
  std::vector<std::string> dim_names_;
  std::vector<std::pair<std::int64_t, std::int64_t>> cell_of_rank_;  // sorted by rank
};

/// "2x4 (ddp, fsdp) of ranks 0-7" and the like, for people.
std::string to_string(const DeviceMesh& mesh);

}  // namespace shardkit
