// encode_form() and decode_form(): a tree for another rank, its tensors without their elements.
#pragma once

#include <string>
#include <string_view>

#include "shardkit/base/result.h"
#include "shardkit/state/value.h"

namespace shardkit {

/// All of a tree but the elements of its tensors: plain values, containers, objects, and of tensors
/// dtype, shapes, and how they are sharded. The same tree gives the same bytes on all ranks.
/// Shardings and meshes that several tensors share are there once.
std::string encode_form(const Value& value);

/// The tree again. Its tensors have no bytes (meta) and are contiguous; those that shared a
/// Sharding do so again. Meshes and shardings are checked as if from a file.
///
/// @error kPeer the bytes are damaged, or deeper than 1000 levels
Result<Value> decode_form(std::string_view bytes);

}  // namespace shardkit
