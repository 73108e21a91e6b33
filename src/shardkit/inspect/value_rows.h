// The tensors of a state tree as rows.
#pragma once

#include "shardkit/inspect/inspection.h"
#include "shardkit/state/value.h"

namespace shardkit {

/// Adds a row for each tensor below `root`, and to `skipped` the leaves that are none, in file
/// order; meshes and counts too.
void add_rows(const Value& root, Inspection& inspection);

/// Counts a row by kind and dtype and appends it.
void add_row(TensorRow row, Inspection& inspection);

/// Adds a mesh unless it is there already.
void add_mesh(const DeviceMesh& mesh, Inspection& inspection);

}  // namespace shardkit
