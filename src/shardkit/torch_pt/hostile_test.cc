// Files that were made to do harm, or to be read as something they are not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "shardkit/pickle/writer.h"
#include "shardkit/testing/bytes_file.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tree_text.h"
#include "shardkit/torch_pt/pickled_test_util.h"
#include "shardkit/torch_pt/reader.h"
#include "shardkit/zip/writer.h"

namespace shardkit {
namespace {

using namespace std::string_literals;
using testing::BytesFile;
using testing::BytesOutput;
using testing::Fails;
using testing::IsOk;
using Records = std::vector<std::pair<std::string, std::string>>;

/// A .pt file of this pickle and these records beside it.
std::string archive(const std::string& pickle, const Records& records = {}) {
  BytesOutput file;
  zip::Writer writer(file);
  writer.add("archive/data.pkl", pickle).value();
  for (const auto& [name, data] : records) writer.add("archive/" + name, data).value();
  writer.finish().value();
  return file.bytes();
}

Result<PtFile> read(const std::string& pickle, const Records& records = {}) {
  return read_pt(BytesFile(archive(pickle, records), "hostile.pt"));
}

std::string text_of(const std::string& pickle, const Records& records = {}) {
  const auto file = read(pickle, records);
  return file.ok() ? testing::tree_text(file->root) : file.error().message();
}

/// A pickle made opcode by opcode.
std::string pickle(const std::function<void(pickle::Writer&)>& write) {
  pickle::Writer writer;
  write(writer);
  return std::move(writer).finish();
}

/// ("storage", class, key, location, count) in BINPERSID.
void storage(pickle::Writer& w, std::int64_t count, std::string_view key = "0",
             std::string_view type = "FloatStorage", std::string_view location = "cpu") {
  w.mark();
  w.string("storage");
  w.global("torch", type);
  w.string(key);
  w.string(location);
  w.integer(count);
  w.tuple();
  w.persistent_id();
}

void numbers(pickle::Writer& w, const std::vector<std::int64_t>& values) {
  w.mark();
  for (const std::int64_t value : values) w.integer(value);
  w.tuple();
}

struct View {
  std::int64_t count = 12;
  std::int64_t offset = 0;
  std::vector<std::int64_t> size = {4, 3};
  std::vector<std::int64_t> stride = {3, 1};
};

/// {'w': _rebuild_tensor_v2(...)}.
std::string tensor_pickle(const View& view) {
  return pickle([&view](pickle::Writer& w) {
    w.empty_dict();
    w.mark();
    w.string("w");
    w.global("torch._utils", "_rebuild_tensor_v2");
    w.mark();
    storage(w, view.count);
    w.integer(view.offset);
    numbers(w, view.size);
    numbers(w, view.stride);
    w.boolean(false);
    w.none();
    w.tuple();
    w.reduce();
    w.set_items();
  });
}

const Records kTwelveFloats = {{"data/0", std::string(48, 'x')}};

TEST(Hostile, CodeIsRefusedByNameAndPlace) {
  // The pickle begins at offset 64 of the file; GLOBAL is its third byte.
  EXPECT_THAT(
      read("\x80\x02"
           "cos\nsystem\n(X\x02\0\0\0idtR."s),
      Fails(ErrorCode::kUnsafe, "found 'system' of module 'os', file 'hostile.pt', offset 66"));
  EXPECT_THAT(read("\x80\x02"
                   "cbuiltins\neval\n(X\x01\0\0\0"
                   "1tR."s),
              Fails(ErrorCode::kUnsafe, "'eval' of module 'builtins'"));
  EXPECT_THAT(read("\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x30\x30h\0h\x01\x93."s),
              Fails(ErrorCode::kUnsafe, "'system' of module 'os'"))
      << "STACK_GLOBAL from the memo";
  // A torch helper that runs a program, and one that unpickles bytes without asking.
  EXPECT_THAT(read("\x80\x02"
                   "ctorch.utils.cpp_extension\nload\n)R."),
              Fails(ErrorCode::kUnsafe, "'load' of module 'torch.utils.cpp_extension'"));
  EXPECT_THAT(read("\x80\x02"
                   "ctorch.storage\n_load_from_bytes\n(C\x01xtR."),
              Fails(ErrorCode::kUnsafe, "'_load_from_bytes' of module 'torch.storage'"));
  EXPECT_THAT(read("\x80\x02"
                   "ctorch.distributed.tensor.placement_types\nos\n."),
              Fails(ErrorCode::kUnsafe, "'os' of module"));
}

TEST(Hostile, PicklesInBytesStayBytes) {
  const std::string inner = "cos\nsystem\n(X\x02\0\0\0idtR."s;
  EXPECT_EQ(text_of("\x80\x03"
                    "C"s +
                    static_cast<char>(inner.size()) + inner + "."),
            "b:" + testing::TreePrinter::hex(inner));
}

TEST(Hostile, EncodedBytesAreLatin1) {
  const auto encoded = [](const char* text, const char* encoding) {
    return read(
        pickle(pickled::call("_codecs", "encode", {pickled::text(text), pickled::text(encoding)})));
  };
  EXPECT_THAT(encoded("\u00e9", "latin1"), IsOk());
  EXPECT_THAT(encoded("\u20ac", "latin1"), Fails(ErrorCode::kCorrupt, "a character above 255"));
  EXPECT_THAT(encoded("x", "utf-8"), Fails(ErrorCode::kUnsupported, "latin1: found utf-8"));
}

TEST(Hostile, GetattrReachesOnlyNestedClasses) {
  const auto getattr = [](std::string_view of, std::string_view name, std::string_view attribute) {
    return pickle([&](pickle::Writer& w) {
      w.global("__builtin__", "getattr");
      w.mark();
      w.global(of, name);
      w.string(attribute);
      w.tuple();
      w.reduce();
    });
  };
  EXPECT_THAT(read(getattr("torch", "Size", "__subclasses__")),
              Fails(ErrorCode::kUnsafe, "'__subclasses__' of torch.Size"));
  EXPECT_THAT(
      read(getattr("torch.distributed._shard.sharded_tensor.api", "ShardedTensor", "__init__")),
      Fails(ErrorCode::kUnsafe, "getattr"));
  EXPECT_EQ(text_of(getattr("torch.distributed._shard.sharded_tensor.metadata",
                            "MEM_FORMAT_ENCODING", "TORCH_CONTIGUOUS_FORMAT")),
            "torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING."
            "TORCH_CONTIGUOUS_FORMAT<>")
      << "how Python 3.11.0 to 3.11.3 pickle an enum";
  const std::string called_twice = "ccollections\ndeque\n)R)R.";
  EXPECT_THAT(read("\x80\x02" + called_twice), Fails(ErrorCode::kUnsafe, "another call returned"));
}

TEST(Hostile, ViewsMustLieInTheirStorages) {
  EXPECT_EQ(text_of(tensor_pickle({}), kTwelveFloats),
            "{'w': float32[4, 3]/[3, 1]+0 of file@320+48}");
  const auto view = [](View changed) { return read(tensor_pickle(changed), kTwelveFloats); };
  EXPECT_THAT(view({.offset = 1}), Fails(ErrorCode::kCorrupt, "leaves its storage: tensor 'w'"));
  EXPECT_THAT(view({.stride = {4, 1}}), Fails(ErrorCode::kCorrupt, "leaves its storage"));
  EXPECT_THAT(view({.offset = -1}), Fails(ErrorCode::kCorrupt, "offset is negative"));
  EXPECT_THAT(view({.size = {-4, 3}}), Fails(ErrorCode::kCorrupt, "negative"));
  EXPECT_THAT(view({.stride = {3}}), Fails(ErrorCode::kCorrupt, "number of strides"));
  EXPECT_THAT(view({.size = {INT64_MAX, 4}}), Fails(ErrorCode::kCorrupt, "overflows"));
  EXPECT_THAT(view({.size = {2, 2}, .stride = {INT64_MAX, 1}}),
              Fails(ErrorCode::kCorrupt, "leaves its storage"));
  EXPECT_THAT(
      view({.size = std::vector<std::int64_t>(65, 1), .stride = std::vector<std::int64_t>(65, 1)}),
      Fails(ErrorCode::kLimit, "too many dimensions"));
  EXPECT_THAT(view({.size = {1 << 30}, .stride = {0}}), IsOk()) << "stride 0 repeats one element";
}

TEST(Hostile, TensorsAreRebuiltFromAllArguments) {
  const auto rebuilt = pickled::call("torch._utils", "_rebuild_tensor_v2", {pickled::none()});
  EXPECT_THAT(read(pickle(pickled::dict({{"w", rebuilt}}))),
              Fails(ErrorCode::kCorrupt,
                    "too few or too many arguments: tensor 'w', expected 6 to "
                    "7, found 1 for torch._utils._rebuild_tensor_v2"));
}

TEST(Hostile, StoragesMustHaveTheSizeTheyState) {
  const auto sized = [](std::int64_t count, std::size_t bytes) {
    return read(tensor_pickle({.count = count}), {{"data/0", std::string(bytes, 'x')}});
  };
  EXPECT_THAT(sized(12, 48), IsOk());
  EXPECT_THAT(sized(12, 51), IsOk()) << "a storage of 51 bytes counts 12 floats";
  EXPECT_THAT(sized(12, 52), Fails(ErrorCode::kCorrupt, "has not the size"));
  EXPECT_THAT(sized(12, 47), Fails(ErrorCode::kCorrupt, "has not the size"));
  EXPECT_THAT(sized(-1, 48), Fails(ErrorCode::kCorrupt, "has not the size"));
  EXPECT_THAT(sized(INT64_MAX, 48), Fails(ErrorCode::kCorrupt, "has not the size"));
  EXPECT_THAT(read(tensor_pickle({})), Fails(ErrorCode::kCorrupt, "found 'archive/data/0'"));
}

TEST(Hostile, PersistentIds) {
  const auto pid = [](auto... arguments) {
    return read(pickle([&](pickle::Writer& w) { storage(w, arguments...); }), kTwelveFloats);
  };
  EXPECT_THAT(pid(12), IsOk());
  EXPECT_THAT(pid(12, "../data.pkl"), Fails(ErrorCode::kCorrupt, "not in the archive"));
  EXPECT_THAT(pid(12, "0", "QInt8Storage"), Fails(ErrorCode::kUnsupported, "QInt8Storage"));
  EXPECT_THAT(pid(12, "0", "float32"), Fails(ErrorCode::kCorrupt, "a storage's class"));
  EXPECT_THAT(pid(12, "absent", "FloatStorage", "meta"), IsOk());
  EXPECT_THAT(pid(INT64_MAX, "0", "FloatStorage", "meta"), Fails(ErrorCode::kCorrupt, "size"));
  EXPECT_THAT(read("\x80\x02X\x01\0\0\0xQ."s), Fails(ErrorCode::kCorrupt, "a persistent id"));
  EXPECT_THAT(read("\x80\x02(X\x06\0\0\0moduleNNNNtQ."s),
              Fails(ErrorCode::kUnsupported, "found module"));
}

TEST(Hostile, RecordsOfTheArchive) {
  const std::string none = "\x80\x02N.";
  EXPECT_THAT(read(none), IsOk());
  EXPECT_THAT(read(none, {{"byteorder", "little"}, {"version", "3\n"}}), IsOk());
  EXPECT_THAT(read(none, {{"byteorder", "big"}}), Fails(ErrorCode::kUnsupported, "big-endian"));
  EXPECT_THAT(read(none, {{"byteorder", "middle"}}), Fails(ErrorCode::kCorrupt, "byte order"));
  EXPECT_THAT(read(none, {{"version", "99"}}), Fails(ErrorCode::kUnsupported, "found 99"));
  EXPECT_THAT(read(none, {{"version", "x"}}), Fails(ErrorCode::kCorrupt, "no number"));
  EXPECT_THAT(read(none, {{"constants.pkl", ""}}), Fails(ErrorCode::kUnsupported, "TorchScript"));
  EXPECT_THAT(read(none, {{"../../etc/passwd", "x"}}), Fails(ErrorCode::kUnsafe, "leaves its"));
  const auto named = [&none](const std::vector<const char*>& names) {
    BytesOutput file;
    zip::Writer writer(file);
    for (const char* name : names) writer.add(name, none).value();
    writer.finish().value();
    return read_pt(BytesFile(file.bytes()));
  };
  EXPECT_THAT(named({"a/data.pkl", "b/data.pkl"}), Fails(ErrorCode::kUnsupported, "two names"));
  EXPECT_THAT(named({"x.npy"}), Fails(ErrorCode::kUnsupported, "a zip archive, but not one"));
  EXPECT_THAT(named({"a/x.npy"}), Fails(ErrorCode::kUnsupported, "a zip archive without data.pkl"));
  EXPECT_THAT(named({"a/.data/serialization_id"}),
              Fails(ErrorCode::kCorrupt, "no data.pkl: torch.save did not finish"));
}

TEST(Hostile, OneKeyTwice) {
  EXPECT_THAT(read("\x80\x02}(X\x01\0\0\0wK\x01X\x01\0\0\0wK\x02u."s),
              Fails(ErrorCode::kCorrupt, "one key twice: found 'w'"));
  EXPECT_THAT(read("\x80\x02}(K\x07K\x01K\x07K\x02u."),
              Fails(ErrorCode::kCorrupt, "one key twice: found 7"));
  EXPECT_THAT(read("\x80\x02}(]K\x01u."), Fails(ErrorCode::kCorrupt, "expected a hashable object"));
}

TEST(Hostile, NestingIsBounded) {
  std::string tuples = "\x80\x02)";
  for (int i = 0; i < 1'000'000; ++i) tuples += '\x85';
  EXPECT_THAT(read(tuples + "."), Fails(ErrorCode::kLimit, "nest too deep"));
  EXPECT_THAT(read("\x80\x02]q\0h\0a."s), Fails(ErrorCode::kLimit, "contain themselves"));
}

/// Lists that each hold the last one ten times: 10^20 elements in 20 lists.
TEST(Hostile, SharingIsBounded) {
  std::string bomb = "\x80\x02]q\0"s;
  for (char i = 1; i <= 20; ++i) {
    bomb += "](";
    for (int k = 0; k < 10; ++k) bomb += "h"s + static_cast<char>(i - 1);
    bomb += "eq"s + i;
  }
  EXPECT_THAT(read("\x80\x02(" + bomb.substr(2) + "l."), Fails(ErrorCode::kLimit, "too large"));
  // One megabyte of text, named a hundred thousand times.
  std::string text = "\x80\x02X\0\0\x10\0"s + std::string(1 << 20, 'x') + "q\0"s + "0(";
  for (int i = 0; i < 100'000; ++i) text += "h\0"s;
  EXPECT_THAT(read(text + "l."), Fails(ErrorCode::kLimit, "too large"));
}

/// A list, a dict and a class's arguments of a million elements, of which the first is the thing
/// itself: 500 levels of them would take 20 GB before the depth ends it.
TEST(Hostile, RoomForElementsIsChargedFirst) {
  const std::string million(1'000'000, 'N');
  EXPECT_THAT(read("\x80\x02]q\0(h\0"s + million + "e."), Fails(ErrorCode::kLimit, "too large"));
  std::string pairs = "\x80\x02}q\0(K\0h\0"s;
  for (int i = 0; i < 500'000; ++i) pairs += "NN";
  EXPECT_THAT(read(pairs + "u."), Fails(ErrorCode::kLimit, "too large"));
  EXPECT_THAT(read("\x80\x02]q\0(ccollections\ndeque\n(h\0"s + million + "tRe."),
              Fails(ErrorCode::kLimit, "too large"));
}

/// One tensor of 64 dimensions, a million times over: a kilobyte for each of two bytes.
TEST(Hostile, LongShapesAreCharged) {
  const std::vector<std::int64_t> ones(64, 1);
  std::string many = tensor_pickle({.size = ones, .stride = ones});
  many.pop_back();
  many = "\x80\x02"s + many.substr(2) +
         "q\xff"
         "0(";
  for (int i = 0; i < 1'000'000; ++i) many += "h\xff";
  EXPECT_THAT(read(many + "l.", kTwelveFloats), Fails(ErrorCode::kLimit, "too large"));
}

}  // namespace
}  // namespace shardkit
