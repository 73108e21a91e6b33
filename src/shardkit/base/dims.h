// Dims: one int64 for each dimension of a tensor (a shape, strides, offsets, an index).
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>

namespace shardkit {

/// A short sequence of int64, at most kMaxDims long. Up to kInlineDims need no allocation, which is
/// what weights have, but for those of convolutions: a catalog of a million pieces keeps three of
/// these each.
class Dims {
 public:
  static constexpr std::size_t kInlineDims = 3;
  /// PyTorch refuses tensors of more dimensions (c10/core, kTensorMaxDims is 64).
  static constexpr std::size_t kMaxDims = 64;

  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values) { copy(values.begin(), values.size()); }
  explicit Dims(std::span<const std::int64_t> values) { copy(values.data(), values.size()); }
  /// `count` entries of `value`. REQUIRES: count <= kMaxDims.
  Dims(std::size_t count, std::int64_t value) : size_(count) {
    if (!is_inline()) values_.heap = new std::int64_t[count];
    std::fill(begin(), end(), value);
  }
  Dims(const Dims& other) { copy(other.data(), other.size()); }
  Dims(Dims&& other) noexcept { swap(other); }
  Dims& operator=(const Dims& other) {
    Dims copied(other);
    swap(copied);
    return *this;
  }
  Dims& operator=(Dims&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Dims() {
    if (!is_inline()) delete[] values_.heap;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int64_t* data() { return is_inline() ? values_.here : values_.heap; }
  const std::int64_t* data() const { return is_inline() ? values_.here : values_.heap; }
  std::int64_t* begin() { return data(); }
  std::int64_t* end() { return data() + size_; }
  const std::int64_t* begin() const { return data(); }
  const std::int64_t* end() const { return data() + size_; }
  std::int64_t& operator[](std::size_t d) { return data()[d]; }
  std::int64_t operator[](std::size_t d) const { return data()[d]; }

  friend bool operator==(const Dims& a, const Dims& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  /// REQUIRES: empty.
  void copy(const std::int64_t* values, std::size_t count) {
    size_ = count;
    if (!is_inline()) values_.heap = new std::int64_t[count];
    std::copy_n(values, count, data());
  }

  bool is_inline() const { return size_ <= kInlineDims; }

  void swap(Dims& other) noexcept {
    std::swap(values_, other.values_);
    std::swap(size_, other.size_);
  }

  union Values {
    std::int64_t here[kInlineDims] = {};
    std::int64_t* heap;
  };

  Values values_;
  std::size_t size_ = 0;
};

/// "[4, 3]", as PyTorch prints a shape.
std::string to_string(const Dims& dims);

}  // namespace shardkit
