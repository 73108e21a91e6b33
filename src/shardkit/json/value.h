// json::Value: one JSON document as a tree; objects keep the order of their members.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace shardkit::json {

class Value;

struct Null {
  friend bool operator==(Null, Null) { return true; }
};

struct Array {
  std::vector<Value> items;
};

/// Members in the order in which they were read or added; parse() never makes two of one name.
struct Object {
  std::vector<std::pair<std::string, Value>> members;

  /// Appends a member. REQUIRES: no member of that name yet.
  void add(std::string key, Value value);
};

/// One node of the tree. Strings are UTF-8.
class Value {
 public:
  /// parse() makes integers int64 where they fit, else uint64; a number with '.' or an exponent is
  /// a double.
  using Variant =
      std::variant<Null, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object>;

  Value() = default;
  Value(Null) {}
  /// Any integer type; bool stays bool. (Templates, so that no pointer turns into a bool.)
  template <std::integral T>
  Value(T value) : variant_(convert(value)) {}
  Value(double value) : variant_(value) {}
  Value(std::string value) : variant_(std::move(value)) {}
  Value(std::string_view value) : variant_(std::string(value)) {}
  Value(const char* value) : variant_(std::string(value)) {}
  Value(Array value) : variant_(std::move(value)) {}
  Value(Object value) : variant_(std::move(value)) {}

  /// The content if it is of kind T (one of Variant's), else null.
  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&variant_);
  }
  template <class T>
  T* get_if() {
    return std::get_if<T>(&variant_);
  }

  const Variant& variant() const { return variant_; }
  bool is_null() const { return std::holds_alternative<Null>(variant_); }

  /// The member `key` if this is an object that has one, else null. Linear in the members.
  const Value* find(std::string_view key) const;
  /// An integer that fits, whichever way it is kept; no double, no bool.
  std::optional<std::int64_t> as_int64() const;
  std::optional<std::uint64_t> as_uint64() const;

 private:
  template <std::integral T>
  static auto convert(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      return value;
    } else if constexpr (std::is_signed_v<T>) {
      return std::int64_t{value};
    } else {
      return std::uint64_t{value};
    }
  }

  Variant variant_;
};

/// "null", "boolean", "integer", "number", "string", "array" or "object", for messages.
std::string_view kind_name(const Value& value);

inline void Object::add(std::string key, Value value) {
  members.emplace_back(std::move(key), std::move(value));
}

}  // namespace shardkit::json
