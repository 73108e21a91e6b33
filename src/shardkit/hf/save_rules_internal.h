// How the tables of weight_conversions.h are written down, and the tables.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "shardkit/hf/weight_conversions.h"

namespace shardkit::hf::internal {

using Names = std::array<std::string_view, kMostRuleNames>;

constexpr SaveRule rule(SaveRule::Change change, Names held, Names saved) {
  SaveRule made{change, {}, {}};
  for (std::size_t i = 0; i < kMostRuleNames; ++i) {
    made.held[i] = held[i];
    made.saved[i] = saved[i];
  }
  return made;
}
constexpr SaveRule rename(std::string_view held, std::string_view saved) {
  return rule(SaveRule::Change::kRename, {held}, {saved});
}
constexpr SaveRule unstack(std::string_view held, std::string_view first,
                           std::string_view second = {}) {
  return rule(SaveRule::Change::kUnstack, {held}, {first, second});
}
constexpr SaveRule rename_minus_one(std::string_view held, std::string_view saved) {
  SaveRule made = rename(held, saved);
  made.minus_one = true;
  return made;
}
constexpr SaveRule chunk(std::string_view held, Names saved, std::size_t dim = 0) {
  SaveRule made = rule(SaveRule::Change::kChunk, {held}, saved);
  made.dim = dim;
  return made;
}
constexpr SaveRule shards(std::string_view held, std::string_view saved) {
  return rule(SaveRule::Change::kShards, {held}, {saved});
}
constexpr SaveRule join_heads(Names held, std::string_view saved, std::string_view heads_of) {
  SaveRule made = rule(SaveRule::Change::kJoinHeads, held, {saved});
  made.heads_of = heads_of;
  return made;
}
constexpr SaveRule interleave(std::size_t dim, Names held, std::string_view saved) {
  SaveRule made = rule(SaveRule::Change::kInterleave, held, {saved});
  made.dim = dim;
  return made;
}
constexpr SaveRule join(Names held, std::string_view saved) {
  return rule(SaveRule::Change::kJoin, held, {saved});
}
constexpr SaveRule transpose(std::string_view held, std::string_view saved) {
  return rule(SaveRule::Change::kTranspose, {held}, {saved});
}
constexpr SaveRule pairs(std::string_view held, std::string_view first, std::string_view second) {
  return rule(SaveRule::Change::kPairs, {held}, {first, second});
}

/// The rules of one table, then those of another.
template <std::size_t kFirst, std::size_t kSecond>
constexpr std::array<SaveRule, kFirst + kSecond> both(const std::array<SaveRule, kFirst>& first,
                                                      const std::array<SaveRule, kSecond>& second) {
  std::array<SaveRule, kFirst + kSecond> all{};
  std::copy(first.begin(), first.end(), all.begin());
  std::copy(second.begin(), second.end(), all.begin() + kFirst);
  return all;
}

/// "qwen2_moe", which most families share.
inline constexpr std::array kMlpExperts{
    unstack("mlp.experts.down_proj", "mlp.experts.*.down_proj.weight"),
    unstack("mlp.experts.gate_up_proj", "mlp.experts.*.gate_proj.weight",
            "mlp.experts.*.up_proj.weight")};
/// "mixtral"
inline constexpr std::array kNumberedExperts{
    unstack(".experts.down_proj", ".experts.*.w2.weight"),
    unstack(".experts.gate_up_proj", ".experts.*.w1.weight", ".experts.*.w3.weight")};

std::span<const SaveFamily> text_families();
std::span<const SaveFamily> media_families();
std::span<const SaveFamily> reordered_families();
std::span<const SaveFamily> vision_families();
std::span<const SaveFamily> detection_families();
std::span<const SaveFamily> sound_families();

}  // namespace shardkit::hf::internal
