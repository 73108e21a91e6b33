// Result<T>: a value or an Error. Status: success or an Error.
#pragma once

#include <stdexcept>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

#include "shardkit/base/error.h"

namespace shardkit {

/// A T, or the Error that kept it from being made. Dropping one unread is a compiler warning.
///
/// `*r`, `r->` and `error()` require that the result is in that state. `value()` throws
/// std::runtime_error with the error's message instead, for scripts and tests.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(tl::unexpect, std::move(error)) {}
  /// Anything a T can be made from, so that a unique_ptr<Derived> returns as unique_ptr<Base>.
  template <class U,
            class = std::enable_if_t<
                std::is_convertible_v<U&&, T> && !std::is_same_v<std::decay_t<U>, Result> &&
                !std::is_same_v<std::decay_t<U>, T> && !std::is_same_v<std::decay_t<U>, Error>>>
  Result(U&& value) : state_(T(std::forward<U>(value))) {}

  bool ok() const { return state_.has_value(); }

  T& operator*() & { return *state_; }
  const T& operator*() const& { return *state_; }
  T&& operator*() && { return *std::move(state_); }
  T* operator->() { return &*state_; }
  const T* operator->() const { return &*state_; }

  const Error& error() const& { return state_.error(); }
  Error&& error() && { return std::move(state_).error(); }

  T& value() & { return check(), *state_; }
  T&& value() && { return check(), *std::move(state_); }

 private:
  void check() const {
    if (!ok()) throw std::runtime_error(state_.error().message());
  }

  tl::expected<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : state_(tl::unexpect, std::move(error)) {}

  bool ok() const { return state_.has_value(); }
  const Error& error() const& { return state_.error(); }
  Error&& error() && { return std::move(state_).error(); }

  void value() const {
    if (!ok()) throw std::runtime_error(state_.error().message());
  }

 private:
  tl::expected<void, Error> state_;
};

using Status = Result<void>;

}  // namespace shardkit

#define SHARDKIT_INTERNAL_CONCAT2(a, b) a##b
#define SHARDKIT_INTERNAL_CONCAT(a, b) SHARDKIT_INTERNAL_CONCAT2(a, b)

/// Evaluates a Status or Result; returns its error from the enclosing function, if it is one.
#define SHARDKIT_TRY(...)                                              \
  do {                                                                 \
    if (auto shardkit_status_ = (__VA_ARGS__); !shardkit_status_.ok()) \
      return std::move(shardkit_status_).error();                      \
  } while (false)

/// `SHARDKIT_ASSIGN(auto x, f())`: x is f()'s value, or f()'s error is returned.
#define SHARDKIT_ASSIGN(target, ...)                                                     \
  SHARDKIT_INTERNAL_ASSIGN(SHARDKIT_INTERNAL_CONCAT(shardkit_result_, __LINE__), target, \
                           __VA_ARGS__)
#define SHARDKIT_INTERNAL_ASSIGN(result, target, ...) \
  auto result = (__VA_ARGS__);                        \
  if (!result.ok()) return std::move(result).error(); \
  target = *std::move(result)
