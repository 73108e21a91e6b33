// The opcode machine: a stack, its marks, and a memo.
#include "shardkit/pickle/parse.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "shardkit/pickle/graph_builder.h"
#include "shardkit/pickle/opcodes.h"
#include "shardkit/pickle/text.h"

namespace shardkit::pickle {
namespace {

class Machine {
 public:
  Machine(std::string data, const ParseOptions& options)
      : builder_(std::move(data), options), options_(options), data_(builder_.data()) {}

  Result<Graph> run() && {
    while (true) {
      op_ = at_;
      SHARDKIT_ASSIGN(const std::string_view byte, take(1));
      const auto code = static_cast<Opcode>(static_cast<std::uint8_t>(byte[0]));
      if (code == Opcode::kStop) return std::move(*this).stop();
      SHARDKIT_TRY(step(code));
    }
  }

 private:
  Error corrupt(std::string what) const {
    return builder_.error(ErrorCode::kCorrupt, std::move(what), op_);
  }

  // ---- arguments of opcodes ----

  Result<std::string_view> take(std::uint64_t bytes) {
    if (bytes > data_.size() - at_) return corrupt("it ends in the middle of an opcode");
    const std::string_view taken = data_.substr(at_, static_cast<std::size_t>(bytes));
    at_ += taken.size();
    return taken;
  }

  /// An unsigned little-endian number.
  template <std::size_t kBytes>
  Result<std::uint64_t> number() {
    SHARDKIT_ASSIGN(const std::string_view raw, take(kBytes));
    std::uint64_t value = 0;
    for (std::size_t i = kBytes; i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(raw[i]);
    return value;
  }

  /// Bytes whose count stands before them.
  template <std::size_t kCountBytes>
  Result<std::string_view> counted() {
    SHARDKIT_ASSIGN(const std::uint64_t count, number<kCountBytes>());
    return take(count);
  }

  /// A line of text, without its end.
  Result<std::string_view> line() {
    const std::size_t end = data_.find('\n', at_);
    if (end == std::string_view::npos) return corrupt("a line without an end");
    const std::string_view text = data_.substr(at_, end - at_);
    at_ = end + 1;
    return text;
  }

  Result<std::uint64_t> decimal_index() {
    SHARDKIT_ASSIGN(const std::string_view text, line());
    std::uint64_t index = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), index);
    if (fault != std::errc() || end != text.data() + text.size())
      return corrupt("a memo index that is no number");
    return index;
  }

  // ---- the stack ----

  Status push(Result<ObjectId> made) {
    if (!made.ok()) return std::move(made).error();
    if (stack_.size() >= options_.max_objects)
      return builder_.error(ErrorCode::kLimit, "the stack grows too large", op_)
          .expected(fmt::format("at most {}", options_.max_objects));
    stack_.push_back(*made);
    return {};
  }

  /// Entries above the topmost mark.
  std::size_t above_mark() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  Status need(std::size_t count) const {
    if (above_mark() < count) return corrupt("an opcode takes more than the stack holds");
    return {};
  }

  /// REQUIRES: need(1).
  ObjectId pop() {
    const ObjectId id = stack_.back();
    stack_.pop_back();
    return id;
  }

  /// REQUIRES: need(count). Valid until something is pushed.
  std::span<const ObjectId> pop_many(std::size_t count) {
    const std::span<const ObjectId> top(stack_.data() + stack_.size() - count, count);
    stack_.resize(stack_.size() - count);
    return top;
  }

  /// Everything above the topmost mark, which goes too. Valid until something is pushed.
  Result<std::span<const ObjectId>> pop_to_mark() {
    if (marks_.empty()) return corrupt("no mark on the stack");
    const auto items = pop_many(above_mark());
    marks_.pop_back();
    return items;
  }

  Status mark() {
    if (marks_.size() >= options_.max_depth)
      return builder_.error(ErrorCode::kLimit, "objects nest too deep", op_)
          .expected(fmt::format("at most {} levels", options_.max_depth));
    marks_.push_back(stack_.size());
    return {};
  }

  // ---- the memo ----

  Status put(std::uint64_t index) {
    SHARDKIT_TRY(need(1));
    // Every PUT takes two bytes or more, so no pickler counts as far as the pickle is long.
    if (index >= data_.size())
      return builder_.error(ErrorCode::kLimit, "a memo index beyond the pickle's size", op_)
          .found(std::to_string(index));
    if (index >= memo_.size()) memo_.resize(static_cast<std::size_t>(index) + 1, kNoObject);
    if (memo_[static_cast<std::size_t>(index)] == kNoObject) ++memoized_;
    memo_[static_cast<std::size_t>(index)] = stack_.back();
    return {};
  }

  Status get(std::uint64_t index) {
    if (index >= memo_.size() || memo_[static_cast<std::size_t>(index)] == kNoObject)
      return corrupt("the memo has no such entry").found(std::to_string(index));
    return push(memo_[static_cast<std::size_t>(index)]);
  }

  // ---- opcodes ----

  Status step(Opcode code);
  Status step_text(Opcode code);
  Status step_refused(Opcode code) const;

  /// A leaf whose argument takes this many bytes.
  template <std::size_t kBytes>
  Status push_leaf() {
    SHARDKIT_TRY(take(kBytes));
    return push(builder_.leaf(op_));
  }

  template <std::size_t kCountBytes>
  Status push_counted(Kind kind) {
    SHARDKIT_ASSIGN(const std::string_view text, counted<kCountBytes>());
    return push(builder_.text_leaf(kind, text, op_));
  }

  template <std::size_t kBytes>
  Status put_numbered() {
    SHARDKIT_ASSIGN(const std::uint64_t index, number<kBytes>());
    return put(index);
  }

  template <std::size_t kBytes>
  Status get_numbered() {
    SHARDKIT_ASSIGN(const std::uint64_t index, number<kBytes>());
    return get(index);
  }

  Status push_tuple(std::size_t count) {
    SHARDKIT_TRY(need(count));
    const auto items = pop_many(count);
    return push(builder_.tuple(items, op_));
  }

  Status push_filled(Kind kind) {
    SHARDKIT_ASSIGN(const auto items, pop_to_mark());
    SHARDKIT_ASSIGN(const ObjectId id, builder_.container(kind, op_));
    SHARDKIT_TRY(kind == Kind::kDict ? builder_.add_pairs(id, items, op_)
                                     : builder_.add_items(id, items, op_));
    return push(id);
  }

  Status push_frozen_set() {
    SHARDKIT_ASSIGN(const auto items, pop_to_mark());
    return push(builder_.frozen_set(items, op_));
  }

  Status pop_mark() {
    SHARDKIT_TRY(pop_to_mark());
    return {};
  }

  /// APPENDS, ADDITEMS and SETITEMS: the target lies below the mark.
  Status add_marked(bool pairs) {
    SHARDKIT_ASSIGN(const auto items, pop_to_mark());
    SHARDKIT_TRY(need(1));
    return pairs ? builder_.add_pairs(stack_.back(), items, op_)
                 : builder_.add_items(stack_.back(), items, op_);
  }

  Status add_top(std::size_t count) {
    SHARDKIT_TRY(need(count + 1));
    const auto items = pop_many(count);
    return count == 2 ? builder_.add_pairs(stack_.back(), items, op_)
                      : builder_.add_items(stack_.back(), items, op_);
  }

  Status construct(Kind kind, bool with_kwargs) {
    SHARDKIT_TRY(need(with_kwargs ? 3 : 2));
    const ObjectId kwargs = with_kwargs ? pop() : kNoObject;
    const ObjectId args = pop();
    const ObjectId callee = pop();
    return push(builder_.construct(kind, callee, args, kwargs, op_));
  }

  Status push_float(std::string_view text) {
    double value = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (fault != std::errc() || end != text.data() + text.size())
      return corrupt("a float that is no number");
    return push(builder_.real(value, op_));
  }

  Status push_decimal(std::string_view text) {
    const auto bytes = decode_decimal(text);
    if (!bytes) return corrupt("an integer that is no number, or too long");
    return push(builder_.big_integer(*bytes, op_));
  }

  Status push_decoded(const std::optional<std::string>& text) {
    if (!text) return corrupt("a string with a bad escape");
    return push(builder_.decoded_text(Kind::kString, *text, op_));
  }

  Status push_stack_global() {
    SHARDKIT_TRY(need(2));
    const ObjectId name = pop();
    const ObjectId module = pop();
    const Graph& graph = builder_.graph();
    if (graph.kind(name) != Kind::kString || graph.kind(module) != Kind::kString)
      return corrupt("a global whose name is no string");
    return push(builder_.global(graph.text(module), graph.text(name), op_));
  }

  Result<Graph> stop() && {
    SHARDKIT_TRY(need(1));
    if (stack_.size() != 1 || !marks_.empty()) return corrupt("it stops with objects left over");
    if (at_ != data_.size())
      return corrupt("data after the end").found(fmt::format("{} bytes", data_.size() - at_));
    return std::move(builder_).finish(stack_.back());
  }

  GraphBuilder builder_;
  ParseOptions options_;
  std::string_view data_;
  std::size_t at_ = 0;  // next byte to read
  std::size_t op_ = 0;  // of the opcode being run
  std::vector<ObjectId> stack_;
  std::vector<std::size_t> marks_;
  std::vector<ObjectId> memo_;
  std::uint64_t memoized_ = 0;  // entries of the memo, as MEMOIZE counts them
};

Status Machine::step(Opcode code) {
  switch (code) {
    case Opcode::kProto: {
      SHARDKIT_ASSIGN(const std::uint64_t version, number<1>());
      if (version <= 5) return {};
      return builder_.error(ErrorCode::kUnsupported, "an unknown protocol", op_)
          .found(std::to_string(version));
    }
    case Opcode::kFrame: {
      SHARDKIT_ASSIGN(const std::uint64_t bytes, number<8>());
      if (bytes > data_.size() - at_) return corrupt("a frame that is longer than the pickle");
      return {};
    }

    case Opcode::kMark: return mark();
    case Opcode::kPop:
      // As in Python, POP takes the topmost mark if nothing lies above it.
      if (above_mark() == 0 && !marks_.empty()) {
        marks_.pop_back();
        return {};
      }
      SHARDKIT_TRY(need(1));
      pop();
      return {};
    case Opcode::kPopMark: return pop_mark();
    case Opcode::kDup: SHARDKIT_TRY(need(1)); return push(stack_.back());

    case Opcode::kNone: return push_leaf<0>();
    case Opcode::kNewTrue: return push_leaf<0>();
    case Opcode::kNewFalse: return push_leaf<0>();
    case Opcode::kBinInt: return push_leaf<4>();
    case Opcode::kBinInt1: return push_leaf<1>();
    case Opcode::kBinInt2: return push_leaf<2>();
    case Opcode::kBinFloat: return push_leaf<8>();
    case Opcode::kLong1: {
      SHARDKIT_ASSIGN(const std::string_view bytes, counted<1>());
      return push(bytes.size() <= 8 ? builder_.leaf(op_) : builder_.big_integer(bytes, op_));
    }
    case Opcode::kLong4: {
      SHARDKIT_ASSIGN(const std::string_view bytes, counted<4>());
      return push(builder_.big_integer(bytes, op_));
    }

    case Opcode::kShortBinString: return push_counted<1>(Kind::kString);
    case Opcode::kBinString: return push_counted<4>(Kind::kString);
    case Opcode::kShortBinUnicode: return push_counted<1>(Kind::kString);
    case Opcode::kBinUnicode: return push_counted<4>(Kind::kString);
    case Opcode::kBinUnicode8: return push_counted<8>(Kind::kString);
    case Opcode::kShortBinBytes: return push_counted<1>(Kind::kBytes);
    case Opcode::kBinBytes: return push_counted<4>(Kind::kBytes);
    case Opcode::kBinBytes8: return push_counted<8>(Kind::kBytes);
    case Opcode::kByteArray8: return push_counted<8>(Kind::kBytes);

    case Opcode::kEmptyTuple: return push_tuple(0);
    case Opcode::kTuple1: return push_tuple(1);
    case Opcode::kTuple2: return push_tuple(2);
    case Opcode::kTuple3: return push_tuple(3);
    case Opcode::kTuple: {
      SHARDKIT_ASSIGN(const auto items, pop_to_mark());
      return push(builder_.tuple(items, op_));
    }
    case Opcode::kEmptyList: return push(builder_.container(Kind::kList, op_));
    case Opcode::kEmptyDict: return push(builder_.container(Kind::kDict, op_));
    case Opcode::kEmptySet: return push(builder_.container(Kind::kSet, op_));
    case Opcode::kList: return push_filled(Kind::kList);
    case Opcode::kDict: return push_filled(Kind::kDict);
    case Opcode::kFrozenSet: return push_frozen_set();
    case Opcode::kAppend: return add_top(1);
    case Opcode::kSetItem: return add_top(2);
    case Opcode::kAppends: return add_marked(false);
    case Opcode::kAddItems: return add_marked(false);
    case Opcode::kSetItems: return add_marked(true);

    case Opcode::kStackGlobal: return push_stack_global();
    case Opcode::kReduce: return construct(Kind::kCall, false);
    case Opcode::kNewObj: return construct(Kind::kNew, false);
    case Opcode::kNewObjEx: return construct(Kind::kNew, true);
    case Opcode::kBuild: {
      SHARDKIT_TRY(need(2));
      const ObjectId state = pop();
      return builder_.set_state(stack_.back(), state, op_);
    }
    case Opcode::kBinPersId: {
      SHARDKIT_TRY(need(1));
      return push(builder_.persistent(pop(), op_));
    }

    case Opcode::kBinPut: return put_numbered<1>();
    case Opcode::kLongBinPut: return put_numbered<4>();
    case Opcode::kMemoize: return put(memoized_);
    case Opcode::kBinGet: return get_numbered<1>();
    case Opcode::kLongBinGet: return get_numbered<4>();
    default: return step_text(code);
  }
}

/// The opcodes of protocol 0, whose arguments are lines of text.
Status Machine::step_text(Opcode code) {
  switch (code) {
    case Opcode::kGlobal: {
      SHARDKIT_ASSIGN(const std::string_view module, line());
      SHARDKIT_ASSIGN(const std::string_view name, line());
      if (!is_utf8(module) || !is_utf8(name)) return corrupt("a global whose name is not UTF-8");
      return push(builder_.global(module, name, op_));
    }
    case Opcode::kInt: {
      SHARDKIT_ASSIGN(const std::string_view text, line());
      if (text == "00" || text == "01") return push(builder_.boolean(text == "01", op_));
      return push_decimal(text);
    }
    case Opcode::kLong: {
      SHARDKIT_ASSIGN(std::string_view text, line());
      if (text.ends_with('L')) text.remove_suffix(1);
      return push_decimal(text);
    }
    case Opcode::kFloat: {
      SHARDKIT_ASSIGN(const std::string_view text, line());
      return push_float(text);
    }
    case Opcode::kString: {
      SHARDKIT_ASSIGN(const std::string_view text, line());
      return push_decoded(decode_quoted(text));
    }
    case Opcode::kUnicode: {
      SHARDKIT_ASSIGN(const std::string_view text, line());
      return push_decoded(decode_raw_unicode_escape(text));
    }
    case Opcode::kPersId: {
      SHARDKIT_ASSIGN(const std::string_view text, line());
      SHARDKIT_ASSIGN(const ObjectId id, builder_.text(Kind::kString, text, op_));
      return push(builder_.persistent(id, op_));
    }
    case Opcode::kPut: {
      SHARDKIT_ASSIGN(const std::uint64_t index, decimal_index());
      return put(index);
    }
    case Opcode::kGet: {
      SHARDKIT_ASSIGN(const std::uint64_t index, decimal_index());
      return get(index);
    }
    default: return step_refused(code);
  }
}

Status Machine::step_refused(Opcode code) const {
  switch (code) {
    case Opcode::kInst:
    case Opcode::kObj:
      return builder_.error(ErrorCode::kUnsupported, "an instance in the form of Python 2", op_);
    case Opcode::kExt1:
    case Opcode::kExt2:
    case Opcode::kExt4:
      return builder_.error(ErrorCode::kUnsafe, "a global by its extension code", op_);
    case Opcode::kNextBuffer:
    case Opcode::kReadonlyBuffer:
      return builder_.error(ErrorCode::kUnsupported, "data outside the pickle", op_);
    default:
      return corrupt("an unknown opcode")
          .found(fmt::format("{:#04x}", static_cast<unsigned>(code)));
  }
}

}  // namespace

Result<Graph> parse(std::string data, const ParseOptions& options) {
  if (data.size() > kMaxPickleBytes)
    return Error(ErrorCode::kLimit, "pickle: it is too large")
        .at_offset(options.base_offset)
        .expected(fmt::format("at most {} bytes", kMaxPickleBytes))
        .found(std::to_string(data.size()));
  return Machine(std::move(data), options).run();
}

}  // namespace shardkit::pickle
