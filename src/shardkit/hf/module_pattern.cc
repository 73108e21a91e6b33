// Matches the keys of rank_pattern and alpha_pattern.
#include "shardkit/hf/module_pattern.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace shardkit::hf {
namespace {

constexpr std::size_t kMostBytes = 4096;

/// One character of a name, or any number of them.
struct Atom {
  enum class Kind { kLiteral, kAny, kDigit, kWord };
  Kind kind = Kind::kLiteral;
  char literal = 0;
  bool may_lack = false;    // ? and *
  bool may_repeat = false;  // + and *
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_word(char c) {
  return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool fits(const Atom& atom, char c) {
  switch (atom.kind) {
    case Atom::Kind::kLiteral: return c == atom.literal;
    case Atom::Kind::kAny: return c != '\n';
    case Atom::Kind::kDigit: return is_digit(c);
    case Atom::Kind::kWord: return is_word(c);
  }
  return false;
}

Error unknown(std::string_view key) {
  return Error(ErrorCode::kUnsupported,
               "a key of rank_pattern or alpha_pattern is a regular expression that shardkit does "
               "not know")
      .found(key);
}

Result<std::vector<Atom>> parse(std::string_view text, std::string_view key) {
  std::vector<Atom> atoms;
  for (std::size_t i = 0; i < text.size(); ++i) {
    Atom atom{Atom::Kind::kLiteral, text[i]};
    if (text[i] == '.') {
      atom.kind = Atom::Kind::kAny;
    } else if (text[i] == '\\') {
      if (++i == text.size()) return unknown(key);
      atom.literal = text[i];
      if (text[i] == 'd') {
        atom.kind = Atom::Kind::kDigit;
      } else if (text[i] == 'w') {
        atom.kind = Atom::Kind::kWord;
      } else if (is_word(text[i])) {
        return unknown(key);
      }
    } else if (std::string_view("^$*+?{}[]|()").find(text[i]) != std::string_view::npos) {
      return unknown(key);
    }
    if (i + 1 < text.size()) {
      const char next = text[i + 1];
      atom.may_lack = next == '*' || next == '?';
      atom.may_repeat = next == '*' || next == '+';
      if (atom.may_lack || atom.may_repeat) ++i;
    }
    atoms.push_back(atom);
  }
  return atoms;
}

/// Whether a key without operators but '.' names the module: most do, and there may be one for
/// each.
bool names_at_end(std::string_view key, std::string_view module, bool from_start) {
  if (key.size() > module.size()) return false;
  const std::size_t start = module.size() - key.size();
  if (start > 0 && (from_start || module[start - 1] != '.')) return false;
  return std::equal(key.begin(), key.end(), module.begin() + static_cast<std::ptrdiff_t>(start),
                    [](char k, char c) { return k == '.' ? c != '\n' : k == c; });
}

}  // namespace

Result<bool> names_module(std::string_view key, std::string_view module) {
  if (key.size() > kMostBytes || module.size() > kMostBytes) return unknown(key);
  const bool from_start = key.starts_with('^');
  const std::string_view text = key.substr(from_start ? 1 : 0);
  if (std::all_of(text.begin(), text.end(), [](char c) { return is_word(c) || c == '.'; }))
    return names_at_end(text, module, from_start);
  SHARDKIT_ASSIGN(const std::vector<Atom> atoms, parse(text, key));
  // before[i]: the first i atoms may have taken all characters so far; inside[i]: atom i, too, and
  // it may take more.
  std::vector<bool> before(atoms.size() + 1, false), inside(atoms.size(), false);
  for (std::size_t at = 0;; ++at) {
    if (at == 0 || (!from_start && module[at - 1] == '.')) before[0] = true;
    for (std::size_t i = 0; i < atoms.size(); ++i)
      if (before[i] && atoms[i].may_lack) before[i + 1] = true;
    if (at == module.size()) return bool(before[atoms.size()]);
    std::vector<bool> next_before(atoms.size() + 1, false), next_inside(atoms.size(), false);
    for (std::size_t i = 0; i < atoms.size(); ++i) {
      if (!(before[i] || inside[i]) || !fits(atoms[i], module[at])) continue;
      next_before[i + 1] = true;
      next_inside[i] = atoms[i].may_repeat;
    }
    before = std::move(next_before);
    inside = std::move(next_inside);
  }
}

}  // namespace shardkit::hf
