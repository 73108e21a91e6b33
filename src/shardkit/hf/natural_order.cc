// Compares names part by part.
#include "shardkit/hf/natural_order.h"

#include <compare>
#include <cstddef>

namespace shardkit::hf {
namespace {

constexpr std::string_view kDigits = "0123456789";

/// Of any length. REQUIRES: digits alone.
std::strong_ordering compare_numbers(std::string_view a, std::string_view b) {
  a.remove_prefix(a.find_first_not_of('0') == a.npos ? a.size() : a.find_first_not_of('0'));
  b.remove_prefix(b.find_first_not_of('0') == b.npos ? b.size() : b.find_first_not_of('0'));
  if (a.size() != b.size()) return a.size() <=> b.size();
  return a.compare(b) <=> 0;
}

std::strong_ordering compare_parts(std::string_view a, std::string_view b) {
  const auto split = [](std::string_view part) {
    return part.find_last_not_of(kDigits) + 1;  // 0 where there are digits alone
  };
  const std::size_t text_a = split(a);
  const std::size_t text_b = split(b);
  const bool is_number_a = text_a == 0 && !a.empty();
  const bool is_number_b = text_b == 0 && !b.empty();
  if (is_number_a != is_number_b)
    return is_number_a ? std::strong_ordering::less : std::strong_ordering::greater;
  if (const int texts = a.substr(0, text_a).compare(b.substr(0, text_b)); texts != 0)
    return texts <=> 0;
  const std::string_view number_a = a.substr(text_a);
  const std::string_view number_b = b.substr(text_b);
  if (number_a.empty() || number_b.empty()) return !number_a.empty() <=> !number_b.empty();
  return compare_numbers(number_a, number_b);
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  while (true) {
    const std::size_t dot_a = a.find('.');
    const std::size_t dot_b = b.find('.');
    const auto parts = compare_parts(a.substr(0, dot_a), b.substr(0, dot_b));
    if (parts != 0) return parts < 0;
    if (dot_a == a.npos || dot_b == b.npos) return dot_a == a.npos && dot_b != b.npos;
    a.remove_prefix(dot_a + 1);
    b.remove_prefix(dot_b + 1);
  }
}

}  // namespace shardkit::hf
