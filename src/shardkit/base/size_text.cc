// Parses and prints sizes in bytes.
#include "shardkit/base/size_text.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <limits>

#include "shardkit/base/checked_math.h"

namespace shardkit {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};

constexpr std::array<Unit, 9> kUnits{{{"b", 1},
                                      {"kb", 1'000},
                                      {"mb", 1'000'000},
                                      {"gb", 1'000'000'000},
                                      {"tb", 1'000'000'000'000},
                                      {"kib", 1ull << 10},
                                      {"mib", 1ull << 20},
                                      {"gib", 1ull << 30},
                                      {"tib", 1ull << 40}}};

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

bool equal_ignoring_case(std::string_view text, std::string_view lower) {
  if (text.size() != lower.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (std::tolower(static_cast<unsigned char>(text[i])) != lower[i]) return false;
  return true;
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

/// REQUIRES: is_digits(text).
std::optional<std::uint64_t> parse_digits(std::string_view text) {
  std::uint64_t value = 0;
  for (const char c : text) {
    const auto tens = checked_mul<std::uint64_t>(value, 10);
    if (!tens) return std::nullopt;
    const auto sum = checked_add<std::uint64_t>(*tens, static_cast<std::uint64_t>(c - '0'));
    if (!sum) return std::nullopt;
    value = *sum;
  }
  return value;
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  const auto refuse = [&] {
    return Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is no size in bytes", text))
        .expected(
            "a number, alone or with B, KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, "
            "TiB (powers of 1024)");
  };
  const std::string_view trimmed = trim(text);
  const std::size_t number_end = trimmed.find_first_not_of("0123456789.");
  std::string_view number = trimmed.substr(0, number_end);
  const std::string_view unit_name =
      number_end == trimmed.npos ? std::string_view() : trim(trimmed.substr(number_end));

  std::uint64_t unit_bytes = unit_name.empty() ? 1 : 0;
  for (const Unit& unit : kUnits)
    if (equal_ignoring_case(unit_name, unit.name)) unit_bytes = unit.bytes;
  if (unit_bytes == 0) return refuse();

  std::string_view fraction;
  if (const std::size_t point = number.find('.'); point != number.npos) {
    fraction = number.substr(point + 1);
    number = number.substr(0, point);
    // Six digits keep the product below in 64 bits.
    if (!is_digits(fraction) || fraction.size() > 6 || unit_bytes == 1) return refuse();
  }
  if (!is_digits(number)) return refuse();

  std::uint64_t fraction_bytes = 0;
  if (!fraction.empty()) {
    std::uint64_t scale = 1;
    for (std::size_t i = 0; i < fraction.size(); ++i) scale *= 10;
    fraction_bytes = *parse_digits(fraction) * unit_bytes / scale;
  }
  const auto count = parse_digits(number);
  if (!count) return refuse();
  const auto whole_bytes = checked_mul<std::uint64_t>(*count, unit_bytes);
  if (!whole_bytes) return refuse();
  const auto bytes = checked_add<std::uint64_t>(*whole_bytes, fraction_bytes);
  if (!bytes || *bytes > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) return refuse();
  return *bytes;
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  constexpr std::string_view kNames[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  std::size_t unit = 0;
  double value = static_cast<double>(bytes) / 1000;
  // 999,950 rounds to 1000.0 kB: the next unit says it better.
  while (value >= 999.95 && unit + 1 < std::size(kNames)) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kNames[unit]);
}

}  // namespace shardkit
