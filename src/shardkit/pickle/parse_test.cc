// Pickles that Python wrote, pickles that nobody should, and how much either may cost.
#include "shardkit/pickle/parse.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "shardkit/pickle/text.h"
#include "shardkit/pickle/writer.h"
#include "shardkit/testing/matchers.h"

namespace shardkit::pickle {
namespace {

using namespace std::string_literals;
using shardkit::testing::Fails;
using shardkit::testing::IsOk;

bool harmless(std::string_view module, std::string_view) {
  return module == "builtins" || module == "__builtin__" || module == "_codecs" || module == "m";
}

Result<Graph> read(std::string bytes) {
  return parse(std::move(bytes), {.allow = harmless, .base_offset = 1000});
}

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

std::string to_hex(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) hex += fmt::format("{:02x}", static_cast<std::uint8_t>(c));
  return hex;
}

/// Python's notation, as far as it goes.
std::string print(const Graph& graph, ObjectId id) {
  const auto list = [&graph](std::span<const ObjectId> items) {
    std::string text;
    for (const ObjectId item : items) text += (text.empty() ? "" : ", ") + print(graph, item);
    return text;
  };
  switch (graph.kind(id)) {
    case Kind::kNone: return "None";
    case Kind::kBool: return graph.boolean(id) ? "True" : "False";
    case Kind::kInt: return std::to_string(graph.integer(id));
    case Kind::kBigInt: return "0x" + to_hex(graph.text(id));
    case Kind::kFloat: return fmt::format("{}", graph.real(id));
    case Kind::kString: return fmt::format("'{}'", graph.text(id));
    case Kind::kBytes: return "b:" + to_hex(graph.text(id));
    case Kind::kTuple: return "(" + list(graph.items(id)) + ")";
    case Kind::kList: return "[" + list(graph.items(id)) + "]";
    case Kind::kSet: return "{" + list(graph.items(id)) + "}";
    case Kind::kFrozenSet: return "frozen{" + list(graph.items(id)) + "}";
    case Kind::kDict: return "{: " + list(graph.items(id)) + "}";
    case Kind::kGlobal: return graph.global(id).module + "." + graph.global(id).name;
    case Kind::kPersistentId: return "pid " + print(graph, graph.persistent_id(id));
    case Kind::kCall:
    case Kind::kNew: break;
  }
  const Construction& made = graph.construction(id);
  std::string text = graph.kind(id) == Kind::kNew ? "new " : "";
  text += print(graph, made.callee) + print(graph, made.args);
  if (made.kwargs != kNoObject) text += "**" + print(graph, made.kwargs);
  if (made.holds_pairs)
    text += "{: " + list(graph.items(id)) + "}";
  else if (!graph.items(id).empty())
    text += "[" + list(graph.items(id)) + "]";
  if (made.state != kNoObject) text += "|" + print(graph, made.state);
  return text;
}

std::string printed(std::string bytes) {
  auto graph = read(std::move(bytes));
  return graph.ok() ? print(*graph, graph->root()) : graph.error().message();
}

// pickle.dumps(obj, protocol) of Python 3.11, protocols 0 to 5, for obj = {"k": [1, -2, 255, 65536,
// 1 << 70, -(1 << 63)], "t": (None, True, 1.5, ("\u00e9", b"\x00\xff")), 7: {"in": ()}, "s": {3},
// "f": frozenset([4])}
TEST(Parse, EveryProtocolOfPython) {
  const std::string_view pickles[] = {
      "286470300a566b0a70310a286c70320a49310a61492d320a61493235350a614936353533360a614c3131"
      "38303539313632303731373431313330333432344c0a614c2d3932323333373230333638353437373538"
      "30384c0a617356740a70330a284e4930310a46312e350a2856e90a70340a635f636f646563730a656e63"
      "6f64650a70350a28565c7530303030ff0a70360a566c6174696e310a70370a7470380a5270390a747031"
      "300a747031310a7349370a28647031320a56696e0a7031330a2874737356730a7031340a635f5f627569"
      "6c74696e5f5f0a7365740a7031350a28286c7031360a49330a61747031370a527031380a7356660a7031"
      "390a635f5f6275696c74696e5f5f0a66726f7a656e7365740a7032300a28286c7032310a49340a617470"
      "32320a527032330a732e",
      "7d71002858010000006b71015d7102284b014afeffffff4bff4a000001004c3131383035393136323037"
      "31373431313330333432344c0a4c2d393232333337323033363835343737353830384c0a655801000000"
      "747103284e4930310a473ff8000000000000285802000000c3a97104635f636f646563730a656e636f64"
      "650a710528580300000000c3bf710658060000006c6174696e31710774710852710974710a74710b4b07"
      "7d710c5802000000696e710d2973580100000073710e635f5f6275696c74696e5f5f0a7365740a710f28"
      "5d71104b03617471115271125801000000667113635f5f6275696c74696e5f5f0a66726f7a656e736574"
      "0a7114285d71154b0461747116527117752e",
      "80027d71002858010000006b71015d7102284b014afeffffff4bff4a000001008a090000000000000000"
      "408a080000000000000080655801000000747103284e88473ff80000000000005802000000c3a9710463"
      "5f636f646563730a656e636f64650a7105580300000000c3bf710658060000006c6174696e3171078671"
      "0852710986710a74710b4b077d710c5802000000696e710d2973580100000073710e635f5f6275696c74"
      "696e5f5f0a7365740a710f5d71104b03618571115271125801000000667113635f5f6275696c74696e5f"
      "5f0a66726f7a656e7365740a71145d71154b0461857116527117752e",
      "80037d71002858010000006b71015d7102284b014afeffffff4bff4a000001008a090000000000000000"
      "408a080000000000000080655801000000747103284e88473ff80000000000005802000000c3a9710443"
      "0200ff71058671067471074b077d71085802000000696e71092973580100000073710a636275696c7469"
      "6e730a7365740a710b5d710c4b036185710d52710e580100000066710f636275696c74696e730a66726f"
      "7a656e7365740a71105d71114b0461857112527113752e",
      "8004956c000000000000007d94288c016b945d94284b014afeffffff4bff4a000001008a090000000000"
      "000000408a080000000000000080658c017494284e88473ff80000000000008c02c3a994430200ff9486"
      "9474944b077d948c02696e9429738c0173948f94284b03908c016694284b049194752e",
      "8005956c000000000000007d94288c016b945d94284b014afeffffff4bff4a000001008a090000000000"
      "000000408a080000000000000080658c017494284e88473ff80000000000008c02c3a994430200ff9486"
      "9474944b077d948c02696e9429738c0173948f94284b03908c016694284b049194752e",
  };
  const auto expected = [](std::string_view bytes, std::string_view set, std::string_view frozen) {
    return fmt::format(
        "{{: 'k', [1, -2, 255, 65536, 0x000000000000000040, -9223372036854775808], "
        "'t', (None, True, 1.5, ('\u00e9', {})), 7, {{: 'in', ()}}, 's', {}, 'f', {}}}",
        bytes, set, frozen);
  };
  const std::string encoded = "_codecs.encode('" + std::string("\0\u00ff", 3) + "', 'latin1')";
  const std::string old = expected(encoded, "__builtin__.set([3])", "__builtin__.frozenset([4])");
  EXPECT_EQ(printed(from_hex(pickles[0])), old);
  EXPECT_EQ(printed(from_hex(pickles[1])), old);
  EXPECT_EQ(printed(from_hex(pickles[2])), old);
  EXPECT_EQ(printed(from_hex(pickles[3])),
            expected("b:00ff", "builtins.set([3])", "builtins.frozenset([4])"));
  EXPECT_EQ(printed(from_hex(pickles[4])), expected("b:00ff", "{3}", "frozen{4}"));
  EXPECT_EQ(printed(from_hex(pickles[5])), expected("b:00ff", "{3}", "frozen{4}"));
}

TEST(Parse, Integers) {
  const auto both = [](std::string_view decimal, std::string_view twos_complement) {
    const std::string bytes = from_hex(twos_complement);
    const std::string value = printed("L" + std::string(decimal) + "L\n.");
    EXPECT_EQ(printed("\x8a" + std::string(1, static_cast<char>(bytes.size())) + bytes + "."),
              value);
    return value;
  };
  // Python 3.11: pickle.dumps(n, 2)
  EXPECT_EQ(both("0", ""), "0");
  EXPECT_EQ(both("-1", "ff"), "-1");
  EXPECT_EQ(both("2147483648", "0000008000"), "2147483648");
  EXPECT_EQ(both("9223372036854775807", "ffffffffffffff7f"), "9223372036854775807");
  EXPECT_EQ(both("-9223372036854775808", "0000000000000080"), "-9223372036854775808");
  EXPECT_EQ(both("9223372036854775808", "000000000000008000"), "0x000000000000008000");
  EXPECT_EQ(both("-9223372036854775809", "ffffffffffffff7fff"), "0xffffffffffffff7fff");
  EXPECT_EQ(both("5", "05000000000000000000"), "5") << "longer than it needs to be";
  EXPECT_THAT(read("L12x\n."), Fails(ErrorCode::kCorrupt, "an integer that is no number"));
  EXPECT_THAT(read("L" + std::string(5000, '1') + "\n."), Fails(ErrorCode::kCorrupt, "too long"));
  EXPECT_EQ(printed("I-17\n."), "-17");
  EXPECT_EQ(printed("F-1.5e3\n."), "-1500");
  EXPECT_THAT(read("F1.5x\n."), Fails(ErrorCode::kCorrupt, "a float that is no number"));
}

TEST(Parse, StringsOfProtocolZero) {
  // Python 3.11: pickle.dumps("a\\b\n\u00e9\u20ac\U0001f600", 0)
  EXPECT_EQ(printed("Va\\u005cb\\u000a\xe9\\u20ac\\U0001f600\n."),
            "'a\\b\n\u00e9\u20ac\U0001f600'");
  EXPECT_EQ(printed("V\\\\u0041\n."), "'\\\\u0041'") << "as Python: the pair shields the u";
  EXPECT_THAT(read("V\\ud800\n."), Fails(ErrorCode::kCorrupt, "bad escape"));
  EXPECT_EQ(printed("S'it\\'s\\x41\\101\\n'\n."),
            "'it's"
            "AA\n'");
  EXPECT_THAT(read("S'abc\n."), Fails(ErrorCode::kCorrupt, "bad escape"));
}

TEST(Parse, StringsMustBeUtf8) {
  EXPECT_THAT(read("\x8c\x01\xff."), Fails(ErrorCode::kCorrupt, "not valid UTF-8"));
  EXPECT_THAT(read("\x8c\x03\xed\xa0\x80."), Fails(ErrorCode::kCorrupt, "not valid UTF-8"));
  EXPECT_TRUE(is_utf8("\u00e9\u20ac\U0001f600"));
  EXPECT_FALSE(is_utf8("\xc0\xaf")) << "overlong";
  EXPECT_FALSE(is_utf8("\xe0\x80\xaf")) << "overlong";
  EXPECT_FALSE(is_utf8("\xf4\x90\x80\x80")) << "beyond U+10FFFF";
  EXPECT_FALSE(is_utf8("\xe2\x82")) << "cut short";
}

TEST(Parse, ObjectsAreDescribedNotMade) {
  EXPECT_EQ(printed("cm\nf\n(K\x01K\x02tR."), "m.f(1, 2)");
  EXPECT_EQ(printed("cm\nC\n)\x81}X\x01\0\0\0aK\x01sb."s), "new m.C()|{: 'a', 1}");
  EXPECT_EQ(printed("cm\nC\n)}X\x01\0\0\0aK\x01s\x92."s), "new m.C()**{: 'a', 1}");
  EXPECT_EQ(printed("cm\nC\n)R(K\x01K\x02K\x03K\x04u."), "m.C(){: 1, 2, 3, 4}");
  EXPECT_EQ(printed("cm\nC\n)R(K\x01K\x02"
                    "e."),
            "m.C()[1, 2]");
  EXPECT_EQ(printed("\x8c\x01m\x8c\x03"
                    "A.B\x93."),
            "m.A.B");
  EXPECT_EQ(printed("(K\x01K\x02tQ."), "pid (1, 2)");
  EXPECT_EQ(printed("Pabc\n."), "pid 'abc'");
}

TEST(Parse, TheMemo) {
  EXPECT_EQ(printed("K\x07q\x05h\x05\x86."), "(7, 7)");
  EXPECT_EQ(printed("K\x07p3\ng3\n\x86."), "(7, 7)");
  EXPECT_EQ(printed("K\x07\x94h\0\x86."s), "(7, 7)");
  EXPECT_THAT(read("h\x05."), Fails(ErrorCode::kCorrupt, "the memo has no such entry"));
  EXPECT_THAT(read("Nr\xff\xff\xff\xff."), Fails(ErrorCode::kLimit, "memo index"));
  // pickle.dumps of a list that holds itself
  const auto loop = read(from_hex("80025d71006800612e"));
  ASSERT_THAT(loop, IsOk());
  EXPECT_EQ(loop->items(loop->root())[0], loop->root());
}

TEST(Parse, GlobalsOffTheListAreNamed) {
  EXPECT_THAT(read("cos\nsystem\n(X\x02\0\0\0idtR."s),
              Fails(ErrorCode::kUnsafe, "found 'system' of module 'os', offset 1000"));
  EXPECT_THAT(read("\x8c\x02os\x94\x8c\x06system\x94\x30\x30h\0h\x01\x93."s),
              Fails(ErrorCode::kUnsafe, "found 'system' of module 'os', offset 1020"))
      << "from the memo, at the offset of STACK_GLOBAL";
  EXPECT_THAT(parse("cm\nf\n.", {}),
              Fails(ErrorCode::kUnsafe, "a class or function that is not on the allow list"));
  EXPECT_THAT(read("K\x01K\x02\x93."), Fails(ErrorCode::kCorrupt, "name is no string"));
  EXPECT_THAT(read("cm\nC\n}b."), Fails(ErrorCode::kUnsafe, "an attempt to change a global"));
  EXPECT_THAT(read("c\xff\nf\n."), Fails(ErrorCode::kCorrupt, "name is not UTF-8"));
  EXPECT_THAT(read("cm\n\xff\n."), Fails(ErrorCode::kCorrupt, "name is not UTF-8"));
  EXPECT_THAT(read("\x82\x01."), Fails(ErrorCode::kUnsafe, "extension code"));
}

TEST(Parse, OpcodesThatAreRefused) {
  EXPECT_THAT(read("(im\nC\n."), Fails(ErrorCode::kUnsupported, "Python 2"));
  EXPECT_THAT(read("(cm\nC\no."), Fails(ErrorCode::kUnsupported, "Python 2"));
  EXPECT_THAT(read("\x97."), Fails(ErrorCode::kUnsupported, "outside the pickle"));
  EXPECT_THAT(read("\x80\x06N."), Fails(ErrorCode::kUnsupported, "an unknown protocol"));
  EXPECT_THAT(read("\xff."), Fails(ErrorCode::kCorrupt, "an unknown opcode: found 0xff"));
}

TEST(Parse, NonsenseIsCorrupt) {
  EXPECT_THAT(read(""), Fails(ErrorCode::kCorrupt, "middle of an opcode"));
  EXPECT_THAT(read("N"), Fails(ErrorCode::kCorrupt, "middle of an opcode: offset 1001"));
  EXPECT_THAT(read("."), Fails(ErrorCode::kCorrupt, "more than the stack holds"));
  EXPECT_THAT(read("NN."), Fails(ErrorCode::kCorrupt, "left over"));
  EXPECT_THAT(read("N.N"), Fails(ErrorCode::kCorrupt, "data after the end: found 1 bytes"));
  EXPECT_THAT(read("(N."), Fails(ErrorCode::kCorrupt, "left over"));
  EXPECT_THAT(read("t."), Fails(ErrorCode::kCorrupt, "no mark"));
  EXPECT_THAT(read("N(\x85."), Fails(ErrorCode::kCorrupt, "more than the stack holds"))
      << "TUPLE1 may not reach below the mark";
  EXPECT_THAT(read("NNa."), Fails(ErrorCode::kCorrupt, "items added to an object that takes none"));
  EXPECT_THAT(read("]NNs."), Fails(ErrorCode::kCorrupt, "pairs set in an object that takes none"));
  EXPECT_THAT(read("cm\nC\n)RNNsNa."), Fails(ErrorCode::kCorrupt, "an object that holds pairs"));
  EXPECT_THAT(read("cm\nC\n)RNaNNs."), Fails(ErrorCode::kCorrupt, "an object that holds items"));
  EXPECT_THAT(read("cm\nC\n)N\x92."), Fails(ErrorCode::kCorrupt, "that are no dict: offset 1007"));
  EXPECT_THAT(read("}(Nu."), Fails(ErrorCode::kCorrupt, "a key without a value"));
  EXPECT_THAT(read("N)R."), Fails(ErrorCode::kCorrupt, "no global"));
  EXPECT_THAT(read("cm\nf\nNR."), Fails(ErrorCode::kCorrupt, "no tuple"));
  EXPECT_THAT(read("NNb."), Fails(ErrorCode::kCorrupt, "takes none"));
  EXPECT_THAT(read("cm\nC\n)RNbNb."), Fails(ErrorCode::kCorrupt, "a second state"));
  EXPECT_THAT(read("\x95\xff\0\0\0\0\0\0\0N."s), Fails(ErrorCode::kCorrupt, "a frame"));
  EXPECT_THAT(read("NI12."), Fails(ErrorCode::kCorrupt, "a line without an end: offset 1001"));
  EXPECT_THAT(read("Np1x\n."), Fails(ErrorCode::kCorrupt, "a memo index that is no number"));
  EXPECT_THAT(read("g-1\n."), Fails(ErrorCode::kCorrupt, "a memo index that is no number"));
  EXPECT_THAT(read("X\xff\xff\xff\x7f."), Fails(ErrorCode::kCorrupt, "middle of an opcode"));
  EXPECT_THAT(read("\x8b\xff\xff\xff\xff."), Fails(ErrorCode::kCorrupt, "middle"));
}

TEST(Parse, DepthIsBounded) {
  std::string tuples = ")";
  for (int i = 0; i < 1'000'000; ++i) tuples += '\x85';
  EXPECT_THAT(read(tuples + "."), Fails(ErrorCode::kLimit, "nest too deep"));
  EXPECT_THAT(read(std::string(1'000'000, '(') + "."), Fails(ErrorCode::kLimit, "nest too deep"));
  std::string lists(1'000'000, ']');
  lists += std::string(999'999, 'a') + ".";
  EXPECT_THAT(read(lists), Fails(ErrorCode::kLimit, "nest too deep"));
  EXPECT_THAT(read(")" + std::string(499, '\x85') + "."), IsOk());
}

TEST(Parse, ObjectsAndStackAreBounded) {
  const auto small = [](std::string bytes) {
    return parse(std::move(bytes), {.allow = harmless, .max_objects = 100});
  };
  EXPECT_THAT(small("(" + std::string(101, 'N') + "l."), Fails(ErrorCode::kLimit, "too many"));
  EXPECT_THAT(small("(N" + std::string(101, '2') + "l."), Fails(ErrorCode::kLimit, "the stack"));
  EXPECT_THAT(small("(" + std::string(99, 'N') + "l."), IsOk());
  EXPECT_THAT(read(std::string(kMaxPickleBytes + 1, 'N')),
              Fails(ErrorCode::kLimit,
                    "it is too large: expected at most 268435456 bytes, found "
                    "268435457, offset 1000"));
}

/// A memo bomb, where each list holds the last one twice, costs what its bytes do.
TEST(Parse, SharingCostsNothing) {
  std::string bomb = "]q\0"s;
  for (char i = 1; i < 100; ++i)
    bomb += "](h"s + static_cast<char>(i - 1) + "h" + static_cast<char>(i - 1) + "eq" + i;
  const auto graph = read("(" + bomb + "l.");
  ASSERT_THAT(graph, IsOk());
  EXPECT_LT(graph->non_leaves(), 200u);
}

TEST(Parse, ListsThatGrowByTurnsKeepTheirItems) {
  std::string bytes = "(]q\0]q\1"s;
  std::string evens, odds;
  for (char i = 0; i < 100; i += 2) {
    bytes += "h\0K"s + i + "a0h\1K" + static_cast<char>(i + 1) + "a0";
    evens += fmt::format("{}{}", evens.empty() ? "" : ", ", static_cast<int>(i));
    odds += fmt::format("{}{}", odds.empty() ? "" : ", ", i + 1);
  }
  EXPECT_EQ(printed(bytes + "t."), fmt::format("([{}], [{}])", evens, odds));
}

TEST(Writer, WhatItWritesParses) {
  Writer writer;
  writer.mark();
  writer.none();
  writer.boolean(true);
  writer.integer(-3);
  writer.integer(std::int64_t{1} << 40);
  writer.big_integer(from_hex("000000000000000040"));
  writer.real(-0.5);
  writer.string("\u00e9");
  writer.string("\u00e9");
  writer.bytes("\x7f\xff");
  writer.global("m", "f");
  writer.global("m", "f");
  writer.tuple();
  EXPECT_EQ(printed(std::move(writer).finish()),
            "(None, True, -3, 1099511627776, 0x000000000000000040, -0.5, '\u00e9', '\u00e9', "
            "_codecs.encode('\x7f\u00ff', 'latin1'), m.f, m.f)");
}

}  // namespace
}  // namespace shardkit::pickle
