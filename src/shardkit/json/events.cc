// Walks JSON text with nlohmann's parser, and closes the gaps in its strictness.
#include "shardkit/json/events.h"

#include <fmt/format.h>

#include <cstddef>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace shardkit::json {
namespace {

/// Counts the bytes that the parser has taken, since its events do not say where they are.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** taken) : at_(at), taken_(taken) {}

  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *taken_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) {
    return a.at_ == b.at_;
  }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) { return !(a == b); }

 private:
  const char* at_;
  const char** taken_;
};

/// Python's number words, which JSON lacks, with zeros of the same length written over them.
struct PythonNumbers {
  std::string text;                                    ///< empty where there is no such word
  std::vector<std::pair<std::size_t, double>> values;  ///< by the offset of the number's start
};

/// Whether a zero beside this byte would become part of one longer number.
bool continues_number(char c) {
  return (c >= '0' && c <= '9') || c == '.' || c == '+' || c == '-' || c == 'e' || c == 'E';
}

PythonNumbers replace_python_numbers(std::string_view text) {
  PythonNumbers result;
  constexpr std::string_view kNaN = "NaN";
  constexpr std::string_view kInfinity = "Infinity";
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
      continue;
    }
    const std::string_view word = text.substr(i, 3) == kNaN ? kNaN : kInfinity;
    if (text.substr(i, word.size()) != word) continue;
    const std::size_t end = i + word.size();
    if (end < text.size() && continues_number(text[end])) continue;
    const bool negative = word == kInfinity && i > 0 && text[i - 1] == '-';
    const std::size_t start = negative ? i - 1 : i;
    if (start > 0 && continues_number(text[start - 1])) continue;

    constexpr double kInf = std::numeric_limits<double>::infinity();
    if (result.text.empty()) result.text = text;
    for (std::size_t k = i; k < end; ++k) result.text[k] = k == i + 1 ? '.' : '0';
    result.values.emplace_back(start, word == kNaN ? std::numeric_limits<double>::quiet_NaN()
                                      : negative   ? -kInf
                                                   : kInf);
  }
  return result;
}

/// nlohmann's SAX receiver: passes each part on, with limits, and remembers the first error.
class Adapter {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  Adapter(std::string_view text, const PythonNumbers& words, Events& events,
          const ParseLimits& limits)
      : taken(text.data()), text_(text), words_(words), events_(events), limits_(limits) {}

  bool null() { return pass(events_.null()); }
  bool boolean(bool value) { return pass(events_.boolean(value)); }
  bool number_integer(number_integer_t value) { return pass(events_.integer(value)); }
  bool number_unsigned(number_unsigned_t value) {
    if (value <= number_unsigned_t{std::numeric_limits<std::int64_t>::max()})
      return pass(events_.integer(static_cast<std::int64_t>(value)));
    return pass(events_.unsigned_integer(value));
  }
  bool number_float(number_float_t value, const string_t& token) {
    const std::size_t start = number_start(token.size());
    if (token.find_first_of(".eE") == string_t::npos)
      return pass_at(Error(ErrorCode::kLimit, fmt::format("the integer {} needs more than 64 bits",
                                                          token.substr(0, 40))),
                     start);
    if (next_word_ < words_.values.size() && words_.values[next_word_].first == start)
      value = words_.values[next_word_++].second;
    return pass_at(events_.number(value), start);
  }
  bool string(string_t& value) {
    const std::size_t start = string_start();
    return pass_at(events_.string(std::move(value)), start);
  }
  bool key(string_t& name) {
    const std::size_t start = string_start();
    return pass_at(events_.key(std::move(name)), start);
  }
  bool start_object(std::size_t) { return deeper() && pass(events_.begin_object()); }
  bool end_object() { return --depth_, pass(events_.end_object()); }
  bool start_array(std::size_t) { return deeper() && pass(events_.begin_array()); }
  bool end_array() { return --depth_, pass(events_.end_array()); }
  bool binary(binary_t&) { return false; }  // no JSON text makes this event

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& e) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..."
    std::string_view what = e.what();
    const std::size_t place = what.find("] ");
    if (place != what.npos) what.remove_prefix(place + 2);
    const bool too_large = e.id == 406;
    error = Error(too_large ? ErrorCode::kLimit : ErrorCode::kCorrupt,
                  fmt::format("not valid JSON: {}", what))
                .at_offset(limits_.text_offset + (position == 0 ? 0 : position - 1));
    return false;
  }

  const char* taken;
  std::optional<Error> error;

 private:
  std::size_t consumed() const { return static_cast<std::size_t>(taken - text_.data()); }

  /// The parser stops behind a string, and one byte later behind a number unless the text ends.
  std::size_t number_start(std::size_t length) const {
    const std::string_view taken_text = text_.substr(0, consumed());
    const bool at_end =
        !taken_text.empty() && taken_text.find_last_of("0123456789") == taken_text.size() - 1;
    return consumed() - length - (at_end ? 0 : 1);
  }
  std::size_t string_start() const {
    for (std::size_t i = consumed() - 1; i-- > 0;) {
      if (text_[i] != '"') continue;
      std::size_t backslashes = 0;
      while (backslashes < i && text_[i - 1 - backslashes] == '\\') ++backslashes;
      if (backslashes % 2 == 0) return i;
    }
    return 0;
  }
  bool deeper() {
    if (++depth_ <= limits_.depth) return true;
    return pass(
        Error(ErrorCode::kLimit, fmt::format("JSON nests deeper than {} levels", limits_.depth)));
  }
  bool pass(Status status) { return pass_at(std::move(status), consumed() - 1); }
  bool pass_at(Status status, std::size_t offset) {
    if (status.ok()) return true;
    error = std::move(status).error().at_offset(limits_.text_offset + offset);
    return false;
  }

  std::string_view text_;
  const PythonNumbers& words_;
  std::size_t next_word_ = 0;
  Events& events_;
  std::size_t depth_ = 0;
  const ParseLimits& limits_;
};

}  // namespace

Status read_events(std::string_view text, Events& events, const ParseLimits& limits) {
  if (text.size() > limits.bytes)
    return Error(ErrorCode::kLimit,
                 fmt::format("JSON text of {} bytes, more than {}", text.size(), limits.bytes));
  // The parser skips the one and takes the other for the end of the text.
  if (text.substr(0, 3) == "\xEF\xBB\xBF")
    return Error(ErrorCode::kCorrupt, "not valid JSON: it starts with a byte order mark")
        .at_offset(limits.text_offset);
  if (const std::size_t nul = text.find('\0'); nul != text.npos)
    return Error(ErrorCode::kCorrupt, "not valid JSON: a NUL byte")
        .at_offset(limits.text_offset + nul);

  PythonNumbers words;
  if (limits.python_numbers) words = replace_python_numbers(text);
  if (!words.text.empty()) text = words.text;

  Adapter adapter(text, words, events, limits);
  const char* end = text.data() + text.size();
  const bool complete = nlohmann::json::sax_parse(CountingIterator(text.data(), &adapter.taken),
                                                  CountingIterator(end, &adapter.taken), &adapter);
  if (adapter.error) return *std::move(adapter.error);
  if (!complete) return Error(ErrorCode::kCorrupt, "not valid JSON");
  return {};
}

}  // namespace shardkit::json
