// MessageWriter and MessageReader: the bytes in which ranks tell each other of numbers and texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "shardkit/base/dims.h"
#include "shardkit/base/result.h"

namespace shardkit {

/// Appends; the same values give the same bytes. Little-endian, 8 bytes a number.
class MessageWriter {
 public:
  void put(std::int64_t number);
  void put(std::string_view text);
  void put(const Dims& dims);

  std::string take() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Takes values out again, in the order in which they were put in. The bytes come from another
/// rank, perhaps of another version: nothing is allocated that they are too few for.
///
/// @error of all: kPeer the bytes end too early or a number cannot be meant
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : rest_(bytes) {}

  Result<std::int64_t> number();
  /// A number in [0, limit]; of things of which each takes 8 bytes or more, there are at most as
  /// many as the bytes have room for.
  Result<std::int64_t> number_up_to(std::int64_t limit);
  Result<std::size_t> count();
  Result<std::string> text();
  Result<Dims> dims();
  Status expect_end() const;

 private:
  Result<std::string_view> take(std::uint64_t bytes);

  std::string_view rest_;
};

}  // namespace shardkit
