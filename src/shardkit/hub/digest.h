// Digest: SHA-256 of large files, and the SHA-1 that git knows small ones by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "shardkit/base/result.h"

namespace shardkit::hub {

class Digest {
 public:
  enum class Kind { kSha256, kSha1 };

  /// OpenSSL's; its libcrypto is loaded at the first call. @error kUnsupported there is none
  static Result<Digest> make(Kind kind);
  Digest(Digest&& other) noexcept;
  ~Digest();

  void add(std::span<const std::byte> bytes);
  /// In hexadecimal digits, lower case. Ends it: make another for the next. @error kInternal
  Result<std::string> finish();

 private:
  struct State;
  explicit Digest(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace shardkit::hub
