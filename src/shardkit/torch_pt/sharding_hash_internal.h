// The hash by which a reader finds a Sharding that it has made already.
#pragma once

#include <cstddef>

#include "shardkit/layout/sharding.h"

namespace shardkit {

/// Of all that makes two shardings differ: a file may hold a great many that differ in one part
/// alone. Meshes count as equal if they are one object, as the reader makes them.
std::size_t hash_of(const Sharding& sharding);

}  // namespace shardkit
