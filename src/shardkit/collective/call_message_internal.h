// The bytes in which a rank tells the others what it calls, for backends without shared memory.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "shardkit/base/result.h"
#include "shardkit/collective/collective_call.h"

namespace shardkit {

/// The longest encode_shape() of a group of `size`.
std::size_t longest_shape_bytes(int size);

std::string encode_shape(const CallShape& shape);

struct DecodedShape {
  CallShape shape;
  std::size_t bytes;  ///< how many of those given it took
};

/// @param bytes  may go on after the shape
/// @error kPeer  it is no call of a group of `size`
Result<DecodedShape> decode_shape(std::string_view bytes, int size);

}  // namespace shardkit
