// Builds a json::Value from the parts of a document.
#include "shardkit/json/parse.h"

#include <fmt/format.h>

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "shardkit/json/events.h"

namespace shardkit::json {
namespace {

class TreeBuilder : public Events {
 public:
  Status null() override { return add(Null{}); }
  Status boolean(bool value) override { return add(value); }
  Status integer(std::int64_t value) override { return add(value); }
  Status unsigned_integer(std::uint64_t value) override { return add(value); }
  Status number(double value) override { return add(value); }
  Status string(std::string value) override { return add(std::move(value)); }
  Status begin_object() override {
    open_.push_back({Object{}, {}, {}});
    return {};
  }
  Status begin_array() override {
    open_.push_back({Array{}, {}, {}});
    return {};
  }
  Status key(std::string name) override {
    if (!open_.back().names.insert(name).second)
      return Error(ErrorCode::kCorrupt, fmt::format("the JSON name '{}' comes twice", name));
    open_.back().key = std::move(name);
    return {};
  }
  Status end_object() override { return close(); }
  Status end_array() override { return close(); }

  Value take() { return std::move(root_); }

 private:
  struct Container {
    Value value;
    std::string key;  ///< of the member whose value comes next
    std::unordered_set<std::string> names;
  };

  Status add(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (auto* object = open_.back().value.get_if<Object>()) {
      object->add(std::move(open_.back().key), std::move(value));
    } else {
      open_.back().value.get_if<Array>()->items.push_back(std::move(value));
    }
    return {};
  }
  Status close() {
    Value done = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(done));
  }

  Value root_;
  std::vector<Container> open_;
};

}  // namespace

Result<Value> parse(std::string_view text, const ParseLimits& limits) {
  TreeBuilder builder;
  SHARDKIT_TRY(read_events(text, builder, limits));
  return builder.take();
}

}  // namespace shardkit::json
