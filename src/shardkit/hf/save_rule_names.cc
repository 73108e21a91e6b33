// Matches with one wild character in a name at most.
#include "shardkit/hf/save_rule_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

namespace shardkit::hf {
namespace {

/// In a rule's names: digits, and any characters.
constexpr std::string_view kWild = "#*";

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Whether `name` begins with `pattern`; `found` gets the text and what the wild character is.
bool begins_with(std::string_view name, std::string_view pattern, FoundName& found) {
  const std::size_t wild = pattern.find_first_of(kWild);
  if (wild == pattern.npos) {
    found.text = pattern;
    return name.starts_with(pattern);
  }
  if (!name.starts_with(pattern.substr(0, wild))) return false;
  const std::string_view rest = pattern.substr(wild + 1);
  const std::string_view from = name.substr(wild);
  std::size_t most = from.size();
  if (pattern[wild] == '#') most = std::min(most, from.find_first_not_of("0123456789"));
  for (std::size_t count = most; count > 0; --count) {  // as many as possible
    if (!from.substr(count).starts_with(rest)) continue;
    found.text = name.substr(0, wild + count + rest.size());
    found.wild = from.substr(0, count);
    return true;
  }
  return false;
}

/// "3" -> "2", "0" -> "-1"; as it is where it is no number that fits.
std::string one_less(std::string_view digits) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size();
  return is_number ? std::to_string(number - 1) : std::string(digits);
}

}  // namespace

std::string FoundName::with(std::string_view middle) const {
  return fmt::format("{}{}{}", before, middle, behind);
}

std::optional<FoundName> find_in_name(std::string_view held, std::string_view name,
                                      std::size_t from) {
  std::string_view pattern = held;
  const bool at_start = pattern.starts_with('^');
  if (at_start) pattern.remove_prefix(1);
  const bool whole_word = !pattern.empty() && is_letter_or_digit(pattern.back());
  for (std::size_t at = from; at < name.size(); ++at) {
    if (at_start && at != from) return std::nullopt;
    FoundName found;
    if (!begins_with(name.substr(at), pattern, found)) continue;
    const std::size_t end = at + found.text.size();
    const bool goes_on = end < name.size() && (is_letter_or_digit(name[end]) || name[end] == '_');
    if (whole_word && goes_on) continue;
    found.before = name.substr(0, at);
    found.behind = name.substr(end);
    return found;
  }
  return std::nullopt;
}

std::string renamed(const SaveRule& rule, std::string name, std::size_t from) {
  const auto found = find_in_name(rule.held[0], name, from);
  if (!found) return name;
  std::string saved(rule.saved[0]);
  if (const std::size_t wild = saved.find_first_of(kWild);
      wild != saved.npos && !found->wild.empty())
    saved.replace(wild, 1, rule.minus_one ? one_less(found->wild) : std::string(found->wild));
  const std::size_t inside = saved.find(found->text);
  const std::size_t at = found->before.size();
  if (inside != saved.npos && inside <= at &&
      std::string_view(name).substr(at - inside).starts_with(saved))
    return name;
  return found->with(saved);
}

}  // namespace shardkit::hf
