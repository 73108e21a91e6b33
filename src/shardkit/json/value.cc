// Lookups in a json::Value.
#include "shardkit/json/value.h"

#include <limits>

namespace shardkit::json {

const Value* Value::find(std::string_view key) const {
  const Object* object = get_if<Object>();
  if (object == nullptr) return nullptr;
  for (const auto& [name, value] : object->members)
    if (name == key) return &value;
  return nullptr;
}

std::optional<std::int64_t> Value::as_int64() const {
  if (const auto* value = get_if<std::int64_t>()) return *value;
  if (const auto* value = get_if<std::uint64_t>();
      value != nullptr && *value <= std::uint64_t{std::numeric_limits<std::int64_t>::max()})
    return static_cast<std::int64_t>(*value);
  return std::nullopt;
}

std::optional<std::uint64_t> Value::as_uint64() const {
  if (const auto* value = get_if<std::uint64_t>()) return *value;
  if (const auto* value = get_if<std::int64_t>(); value != nullptr && *value >= 0)
    return static_cast<std::uint64_t>(*value);
  return std::nullopt;
}

std::string_view kind_name(const Value& value) {
  struct Names {
    std::string_view operator()(Null) const { return "null"; }
    std::string_view operator()(bool) const { return "boolean"; }
    std::string_view operator()(std::int64_t) const { return "integer"; }
    std::string_view operator()(std::uint64_t) const { return "integer"; }
    std::string_view operator()(double) const { return "number"; }
    std::string_view operator()(const std::string&) const { return "string"; }
    std::string_view operator()(const Array&) const { return "array"; }
    std::string_view operator()(const Object&) const { return "object"; }
  };
  return std::visit(Names{}, value.variant());
}

}  // namespace shardkit::json
