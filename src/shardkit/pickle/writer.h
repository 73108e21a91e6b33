// Writer: emits the opcodes of a protocol 2 pickle, the one that torch.save writes by default.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace shardkit::pickle {

/// Appends opcodes; the caller keeps the stack in order. Strings and globals that come again are
/// taken from the memo, as Python's pickler does with the names it interned.
class Writer {
 public:
  Writer() { out_ = "\x80\x02"; }

  void none() { out_ += 'N'; }
  void boolean(bool value) { out_ += value ? '\x88' : '\x89'; }
  void integer(std::int64_t value);
  /// `twos_complement`: little-endian, at most 255 bytes.
  void big_integer(std::string_view twos_complement);
  void real(double value);
  void string(std::string_view utf8);
  /// As protocol 2 has bytes: _codecs.encode(text, 'latin1').
  void bytes(std::string_view data);
  void global(std::string_view module, std::string_view name);

  void mark() { out_ += '('; }
  void empty_tuple() { out_ += ')'; }
  void tuple() { out_ += 't'; }  ///< of everything above the mark
  void empty_list() { out_ += ']'; }
  void appends() { out_ += 'e'; }
  void empty_dict() { out_ += '}'; }
  void set_items() { out_ += 'u'; }

  void reduce() { out_ += 'R'; }
  void new_object() { out_ += '\x81'; }
  void build() { out_ += 'b'; }
  void persistent_id() { out_ += 'Q'; }

  /// Remembers the top of the stack; get() pushes it again.
  std::uint32_t put();
  void get(std::uint32_t index);

  /// The whole pickle.
  std::string finish() && {
    out_ += '.';
    return std::move(out_);
  }

 private:
  void number(std::uint64_t value, int bytes);
  /// @return whether it was pushed from the memo
  bool recall(const std::string& key);

  std::string out_;
  std::uint32_t next_ = 0;
  std::unordered_map<std::string, std::uint32_t> memo_;  // key: opcode and argument
};

}  // namespace shardkit::pickle
