// Traversing, flattening and unflattening, against what PyTorch made of the same trees.
#include "shardkit/state/flatten.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "shardkit/state/compare.h"
#include "shardkit/state/traverse.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"
#include "shardkit/testing/tensors.h"
#include "shardkit/testing/tree_text.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;
using testing::list;
using testing::number;
using testing::tree_text;

using Items = std::vector<std::pair<Value, Value>>;

Value text(const char* content) { return std::string(content); }

Value tensor(std::int64_t count) {
  return testing::float_tensor({count}, std::vector<float>(static_cast<std::size_t>(count)));
}

Value dict(Items items) { return Dict{std::move(items)}; }
Value tuple(std::vector<Value> items) { return Tuple{std::move(items)}; }

// TREES of testdata/generate.py.
std::map<std::string, Value> trees() {
  const Value none;
  const Value empty = dict({});
  const Value seventy = BigInt{std::string(8, '\0') + '\x40'};
  return {
      {"nothing", empty},
      {"flat",
       dict({{text("weight"), tensor(2)}, {text("step"), number(3)}, {text("name"), text("x")}})},
      {"nested",
       dict({{text("a"), dict({{text("b"), dict({{text("c"), tensor(2)}})}, {text("d"), 1.5}})},
             {text("e"), true}})},
      {"empty_containers",
       dict(
           {{text("d"), empty},
            {text("l"), list({})},
            {text("t"), tuple({})},
            {text("in"), dict({{text("d"), empty}, {text("l"), list({})}, {text("x"), number(1)}})},
            {text("of"), list({empty, list({}), tuple({})})}})},
      {"lists_without_tensors",
       dict({{text("l"), list({number(1), number(2)})},
             {text("ll"), list({list({number(1)}), list({number(2), list({number(3)})})})},
             {text("lt"), list({tuple({number(1), number(2)}), tuple({tensor(1)})})},
             {text("s"), list({text("a")})}})},
      {"lists_with_tensors",
       dict({{text("l"), list({number(1), tensor(2), none})},
             {text("ll"), list({list({number(1)}), list({number(2), list({tensor(1)})})})},
             {text("ld"), list({number(5), dict({{text("k"), number(6)}}), empty})},
             {text("le"), list({list({list({empty})}), number(7)})}})},
      {"tuples", dict({{text("t"), tuple({number(1), number(2)})},
                       {text("tt"), tuple({tensor(1), dict({{text("a"), tensor(2)}})})},
                       {text("n"), tuple({tuple({number(1)}), list({number(2), tuple({})})})}})},
      {"int_keys", dict({{number(0), tensor(1)},
                         {number(10), dict({{number(1), number(2)}, {number(-3), number(4)}})},
                         {text("state"), dict({{number(0), dict({{text("step"), number(1)}})},
                                               {number(1), dict({{text("step"), number(2)}})}})}})},
      {"other_keys",
       dict({{true, number(1)}, {none, dict({{false, number(2)}})}, {text("None"), number(3)}})},
      {"dots", dict({{text("a.b"), tensor(1)},
                     {text("c"),
                      dict({{text("d.e"), dict({{text("f"), number(2)}})}, {text(""), number(3)}})},
                     {text(""), dict({{text(""), number(4)}})}})},
      {"plain_values", dict({{text("n"), none},
                             {text("b"), Bytes{std::string("\0\xff", 2)}},
                             {text("ln"), list({none})},
                             {text("big"), seventy},
                             {text("f"), -0.0},
                             {text("s"), Set{{text("q")}}}})},
      {"duplicate_dots",
       dict({{text("a.b"), number(1)}, {text("a"), dict({{text("b"), number(2)}})}})},
      {"duplicate_int", dict({{number(1), tensor(1)}, {text("1"), tensor(2)}})},
      {"duplicate_index", dict({{text("a"), list({tensor(1)})}, {text("a.0"), number(2)}})},
      {"int_and_text", dict({{number(1), dict({{text("a"), number(1)}})},
                             {text("1"), dict({{text("b"), number(2)}})}})},
  };
}

const Dict& dict_of(const Value& value) { return *value.get_if<Dict>(); }

// A block of flatten.txt.
struct Golden {
  std::string name;
  TraverseRule rule;
  std::string tree;
  std::string error;
  std::vector<std::string> leaves;
  std::vector<std::string> flat;
  std::vector<std::pair<std::string, std::string>> parts;  // keys, tree

  friend void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.name; }
};

std::vector<Golden> goldens() {
  std::vector<Golden> all;
  std::istringstream lines(
      testing::read_file(testing::source_path("src/shardkit/state/testdata/flatten.txt")));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(' ');
    const std::string word = line.substr(0, space);
    const std::string rest = line.substr(space + 1);
    if (word == "tree") {
      const std::size_t cut = rest.find(' ');
      Golden& made = all.emplace_back();
      made.name = rest.substr(0, cut);
      made.rule = rest.substr(cut + 1) == "checkpoint" ? TraverseRule::kCheckpoint
                                                       : TraverseRule::kEveryContainer;
    } else if (word == "is") {
      all.back().tree = rest;
    } else if (word == "error") {
      all.back().error = rest;
    } else if (word == "leaf") {
      all.back().leaves.push_back(rest);
    } else if (word == "flat") {
      all.back().flat.push_back(rest);
    } else if (word == "part") {
      const std::size_t cut = rest.find(" = ");
      all.back().parts.emplace_back(rest.substr(0, cut), rest.substr(cut + 3));
    } else {
      ADD_FAILURE() << line;
    }
  }
  return all;
}

// The keys in "'a', 'b.c'".
std::vector<std::string> keys_in(const std::string& quoted) {
  std::vector<std::string> keys;
  std::size_t at = quoted.find('\'');
  while (at != std::string::npos) {
    const std::size_t end = quoted.find('\'', at + 1);
    keys.push_back(quoted.substr(at + 1, end - at - 1));
    at = quoted.find('\'', end + 1);
  }
  return keys;
}

class FlattenGolden : public ::testing::TestWithParam<Golden> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(trees().contains(GetParam().name));
    tree_ = trees()[GetParam().name];
    ASSERT_EQ(tree_text(tree_), GetParam().tree) << "the tree is not the generator's";
  }

  Value tree_;
};

TEST_P(FlattenGolden, TraversesAsPyTorch) {
  std::vector<std::string> leaves;
  EXPECT_THAT(traverse_state_dict(dict_of(tree_), GetParam().rule,
                                  [&](const StatePath& path, const Value& value) -> Status {
                                    leaves.push_back(tuple_text(path) + " = " + tree_text(value));
                                    return {};
                                  }),
              IsOk());
  EXPECT_EQ(leaves, GetParam().leaves);
}

TEST_P(FlattenGolden, FlattensAsPyTorchAndBack) {
  const auto flattened = flatten_state_dict(dict_of(tree_), GetParam().rule);
  if (!GetParam().error.empty()) {
    EXPECT_THAT(flattened, Fails(ErrorCode::kInvalidArgument, "have the flat key"));
    return;
  }
  ASSERT_THAT(flattened, IsOk());
  const auto& [flat, mapping] = *flattened;
  std::vector<std::string> lines;
  ASSERT_EQ(flat.items.size(), mapping.entries().size());
  for (std::size_t i = 0; i < flat.items.size(); ++i) {
    const auto& [key, path] = mapping.entries()[i];
    EXPECT_EQ(*flat.items[i].first.get_if<std::string>(), key);
    EXPECT_EQ(mapping.find(key), i);
    lines.push_back("'" + key + "' at " + tuple_text(path) + " = " +
                    tree_text(flat.items[i].second));
  }
  EXPECT_EQ(lines, GetParam().flat);
  const auto back = unflatten_state_dict(flat, mapping);
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(tree_text(*back), tree_text(tree_));
  EXPECT_FALSE(find_difference(*back, tree_).value());
}

TEST_P(FlattenGolden, UnflattensPartsAsPyTorch) {
  for (const auto& [quoted, expected] : GetParam().parts) {
    const auto flattened = flatten_state_dict(dict_of(tree_), GetParam().rule).value();
    Dict part;
    for (const std::string& key : keys_in(quoted)) {
      ASSERT_NE(find(flattened.flat, key), nullptr) << key;
      part.items.emplace_back(key, *find(flattened.flat, key));
    }
    const auto made = unflatten_state_dict(part, flattened.mapping);
    ASSERT_THAT(made, IsOk()) << quoted;
    EXPECT_EQ(tree_text(*made), expected) << quoted;
  }
}

std::string test_name(const ::testing::TestParamInfo<Golden>& test) {
  const bool checkpoint = test.param.rule == TraverseRule::kCheckpoint;
  return test.param.name + (checkpoint ? "_checkpoint" : "_every_container");
}
INSTANTIATE_TEST_SUITE_P(Trees, FlattenGolden, ::testing::ValuesIn(goldens()), test_name);

TEST(Flatten, GoldensCoverEveryTreeByBothRules) { EXPECT_EQ(goldens().size(), 2 * trees().size()); }

TEST(Flatten, DuplicateKeysShowBothPaths) {
  EXPECT_THAT(flatten_state_dict(dict_of(trees()["duplicate_index"]), TraverseRule::kCheckpoint),
              Fails(ErrorCode::kInvalidArgument,
                    "two values have the flat key \"a.0\": ('a', 0) and ('a.0',)"));
}

TEST(Flatten, KeysWithoutTextAreRefused) {
  const Value tree = dict({{text("a"), dict({{tuple({number(1)}), number(2)}})}});
  EXPECT_THAT(flatten_state_dict(dict_of(tree), TraverseRule::kCheckpoint),
              Fails(ErrorCode::kUnsupported, "tuple"));
}

TEST(Flatten, DistributedTensorsMakeAListBeEntered) {
  DTensor dtensor{testing::float_tensor({1}, {1}),
                  testing::make_sharding({2}, {0, 1}, {Shard{0}}, {2})};
  EXPECT_FALSE(is_leaf(list({dtensor}), TraverseRule::kCheckpoint));
  EXPECT_FALSE(is_leaf(list({ShardedTensor()}), TraverseRule::kCheckpoint));
  EXPECT_TRUE(is_leaf(tuple({dtensor}), TraverseRule::kCheckpoint));
}

TEST(Flatten, TheVisitorEndsTheTraversal) {
  int visits = 0;
  EXPECT_THAT(traverse_state_dict(dict_of(trees()["flat"]), TraverseRule::kCheckpoint,
                                  [&](const StatePath&, const Value&) -> Status {
                                    ++visits;
                                    return Error(ErrorCode::kCancelled, "enough");
                                  }),
              Fails(ErrorCode::kCancelled, "enough"));
  EXPECT_EQ(visits, 1);
}

TEST(Flatten, FlatTensorsShareTheirStorage) {
  const Value tree = trees()["nested"];
  const auto made = flatten_state_dict(dict_of(tree), TraverseRule::kEveryContainer).value();
  const Value& inner = *find(*find(dict_of(tree), "a")->get_if<Dict>(), "b");
  EXPECT_EQ(find(made.flat, "a.b.c")->get_if<Tensor>()->storage,
            find(*inner.get_if<Dict>(), "c")->get_if<Tensor>()->storage);
}

TEST(Unflatten, OrderOfAllKeysDoesNotMatterAndValuesMayBeOthers) {
  const Value tree = trees()["int_keys"];
  auto [flat, mapping] = flatten_state_dict(dict_of(tree), TraverseRule::kCheckpoint).value();
  std::reverse(flat.items.begin(), flat.items.end());
  flat.items.back().second = text("other");
  EXPECT_EQ(tree_text(unflatten_state_dict(flat, mapping).value()),
            "{0: 'other', 10: {1: 2, -3: 4}, 'state': {0: {'step': 1}, 1: {'step': 2}}}");
}

TEST(Unflatten, WrongKeysAreRefused) {
  const auto [flat, mapping] =
      flatten_state_dict(dict_of(trees()["flat"]), TraverseRule::kCheckpoint).value();
  EXPECT_THAT(unflatten_state_dict(Dict{{{text("stop"), number(1)}}}, mapping),
              Fails(ErrorCode::kInvalidArgument, "the mapping has no flat key \"stop\""));
  EXPECT_THAT(unflatten_state_dict(Dict{{{number(1), number(1)}}}, mapping),
              Fails(ErrorCode::kInvalidArgument, "is no text"));
  EXPECT_THAT(
      unflatten_state_dict(Dict{{{text("step"), number(1)}, {text("step"), number(1)}}}, mapping),
      Fails(ErrorCode::kInvalidArgument, "\"step\" comes twice"));
}

TEST(Unflatten, PartsThatContradictEachOtherAreRefused) {
  const Value tree = dict({{number(1), number(5)},
                           {text("1"), dict({{text("b"), number(2)}})},
                           {text("rest"), number(3)}});
  const auto [flat, mapping] = flatten_state_dict(dict_of(tree), TraverseRule::kCheckpoint).value();
  ASSERT_EQ(flat.items.size(), 3u);
  EXPECT_EQ(tree_text(unflatten_state_dict(flat, mapping).value()), tree_text(tree));
  Dict part{{flat.items[0], flat.items[1]}};
  EXPECT_THAT(unflatten_state_dict(part, mapping),
              Fails(ErrorCode::kInvalidArgument, "the path ('1', 'b') leads through another leaf"));
  std::swap(part.items[0], part.items[1]);
  EXPECT_THAT(unflatten_state_dict(part, mapping),
              Fails(ErrorCode::kInvalidArgument, "the path ('1',) leads through"));
  const Value kinds = dict({{number(1), list({tensor(1)})},
                            {text("1"), dict({{text("b"), number(2)}})},
                            {text("rest"), number(3)}});
  auto other = flatten_state_dict(dict_of(kinds), TraverseRule::kCheckpoint).value();
  other.flat.items.pop_back();
  EXPECT_THAT(unflatten_state_dict(other.flat, other.mapping),
              Fails(ErrorCode::kInvalidArgument, "another kind of container"));
}

}  // namespace
}  // namespace shardkit
