// Hash: one number for many, by which equal things are found fast.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardkit {

/// Mixed in order. For tables in memory: the value may differ between versions and machines.
class Hash {
 public:
  void mix(std::int64_t number) {
    value_ = value_ * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(number);
    value_ ^= value_ >> 29;
  }
  /// Each number, and how many there are, so that (1)(2, 3) and (1, 2)(3) differ.
  template <class Numbers>
  void mix_all(const Numbers& numbers) {
    mix(static_cast<std::int64_t>(numbers.size()));
    for (const std::int64_t number : numbers) mix(number);
  }

  std::size_t value() const { return static_cast<std::size_t>(value_); }

 private:
  std::uint64_t value_ = 0;
};

}  // namespace shardkit
