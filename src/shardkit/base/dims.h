// Dims: one int64 for each dimension of a tensor (a shape, strides, offsets, an index).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace shardkit {

/// A short sequence of int64, at most kMaxDims long. Up to kInlineDims need no allocation: a
/// catalog of a million pieces keeps three of these each.
class Dims {
 public:
  static constexpr std::size_t kInlineDims = 5;
  /// PyTorch refuses tensors of more dimensions (c10/core, kTensorMaxDims is 64).
  static constexpr std::size_t kMaxDims = 64;

  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values) { assign(values.begin(), values.size()); }
  explicit Dims(std::span<const std::int64_t> values) { assign(values.data(), values.size()); }
  /// `count` entries of `value`. REQUIRES: count <= kMaxDims.
  Dims(std::size_t count, std::int64_t value) : size_(count) {
    if (count > kInlineDims) heap_ = std::make_unique<std::int64_t[]>(count);
    std::fill(begin(), end(), value);
  }
  Dims(const Dims& other) { assign(other.data(), other.size()); }
  Dims(Dims&& other) noexcept
      : inline_(other.inline_), heap_(std::move(other.heap_)), size_(std::exchange(other.size_, 0)) {}
  Dims& operator=(Dims other) noexcept {
    inline_ = other.inline_;
    heap_ = std::move(other.heap_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int64_t* data() { return heap_ ? heap_.get() : inline_.data(); }
  const std::int64_t* data() const { return heap_ ? heap_.get() : inline_.data(); }
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
  void assign(const std::int64_t* values, std::size_t count) {
    size_ = count;
    if (count > kInlineDims) heap_ = std::make_unique<std::int64_t[]>(count);
    std::copy_n(values, count, data());
  }

  std::array<std::int64_t, kInlineDims> inline_{};
  std::unique_ptr<std::int64_t[]> heap_;
  std::size_t size_ = 0;
};

/// "[4, 3]", as PyTorch prints a shape.
std::string to_string(const Dims& dims);

}  // namespace shardkit
