// Tests of read_header on files that safetensors wrote, and on odd ones beside its verdict.
#include "shardkit/safetensors/header.h"

#include <cstring>
#include <map>
#include <set>

#include "shardkit/safetensors/golden_test_util.h"
#include "shardkit/testing/matchers.h"

namespace shardkit::safetensors {
namespace {

using ::testing::AllOf;
using testing::Fails;
using testing::IsOk;
using namespace std::string_literals;

/// A file in memory; `claimed_size` may differ from what is there, as if it had been cut since.
class MemoryFile : public RandomAccessFile {
 public:
  explicit MemoryFile(std::string content) : content_(std::move(content)) {}

  const std::string& path() const override { return path_; }
  std::uint64_t size() const override { return claimed_size.value_or(content_.size()); }
  Status read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    longest_read = std::max<std::uint64_t>(longest_read, out.size());
    if (offset > content_.size() || out.size() > content_.size() - offset)
      return Error(ErrorCode::kIo, "the file ends early");
    std::memcpy(out.data(), content_.data() + offset, out.size());
    return {};
  }

  std::optional<std::uint64_t> claimed_size;
  mutable std::uint64_t longest_read = 0;

 private:
  std::string path_ = "a.safetensors";
  std::string content_;
};

std::string with_length(const std::string& json) {
  std::string length;
  for (std::size_t i = 0; i < 8; ++i) length += static_cast<char>((json.size() >> (8 * i)) & 0xFF);
  return length + json;
}

Result<Header> header_of(const std::string& content) { return read_header(MemoryFile(content)); }

TEST(SafetensorsHeader, ReadsWhatSafetensorsWrites) {
  const json::Value expected = golden_json("expected.json");
  for (const char* name : {"small", "every_dtype", "odd_names", "sizes", "none"}) {
    const std::string content = testing::read_file(golden_path(name + std::string(".safetensors")));
    const auto header = header_of(content);
    ASSERT_THAT(header, IsOk()) << name;
    ASSERT_EQ(header->metadata.size(), 1u);
    EXPECT_EQ(header->metadata[0], std::pair("format"s, "pt"s));
    std::map<std::string, const TensorRecord*> records;
    for (const TensorRecord& record : header->tensors) records[record.name] = &record;
    ASSERT_EQ(records.size(), items_of(at(expected, name)).size());
    for (const json::Value& tensor : items_of(at(expected, name))) {
      const TensorSpec spec = spec_of(tensor);
      ASSERT_EQ(records.count(spec.name), 1u) << spec.name;
      const TensorRecord& record = *records[spec.name];
      EXPECT_EQ(record.dtype, spec.dtype) << spec.name;
      EXPECT_EQ(record.shape, spec.shape) << spec.name;
      EXPECT_EQ(content.substr(header->data_offset + record.begin, record.end - record.begin),
                from_hex(text_of(at(tensor, "hex"))))
          << spec.name;
    }
  }
}

/// Files that safe_open takes and we refuse, each with the reason (docs/formats/safetensors.md).
const std::map<std::string, std::pair<ErrorCode, std::string>> kStricter{
    {"space in front", {ErrorCode::kCorrupt, "does not begin with '{'"}},
    {"name twice", {ErrorCode::kCorrupt, "the tensor comes twice: tensor 'a'"}},
    {"other field twice", {ErrorCode::kCorrupt, "'z' comes twice: tensor 'a'"}},
    {"metadata name twice", {ErrorCode::kCorrupt, "'a' comes twice in __metadata__"}},
    {"NUL in metadata", {ErrorCode::kCorrupt, "holds a NUL"}},
    {"NUL in a metadata name", {ErrorCode::kCorrupt, "holds a NUL"}},
    {"NUL in a name", {ErrorCode::kCorrupt, "holds a NUL"}},
    {"entry as array", {ErrorCode::kCorrupt, "a tensor's entry is no object: tensor 'a'"}},
    {"65 dimensions", {ErrorCode::kLimit, "more than 64 dimensions: tensor 'a'"}},
};

TEST(SafetensorsHeader, AgreesWithSafeOpenOrIsStricterByTheList) {
  std::set<std::string> stricter_seen;
  const json::Value verdicts = golden_json("verdicts.json");
  for (const json::Value& odd : items_of(verdicts)) {
    const std::string name = text_of(at(odd, "name"));
    const bool official = text_of(at(odd, "official")) == "ok";
    const auto header = header_of(from_hex(text_of(at(odd, "hex"))));
    if (const auto stricter = kStricter.find(name); stricter != kStricter.end()) {
      EXPECT_TRUE(official) << name;
      EXPECT_THAT(header, Fails(stricter->second.first, stricter->second.second)) << name;
      stricter_seen.insert(name);
    } else if (official) {
      EXPECT_THAT(header, IsOk()) << name;
    } else {
      EXPECT_FALSE(header.ok()) << name << ": " << text_of(at(odd, "official"));
    }
  }
  EXPECT_EQ(stricter_seen.size(), kStricter.size());
}

TEST(SafetensorsHeader, SaysWhatIsWrong) {
  std::map<std::string, std::string> odd;
  const json::Value verdicts = golden_json("verdicts.json");
  for (const json::Value& entry : items_of(verdicts))
    odd[text_of(at(entry, "name"))] = from_hex(text_of(at(entry, "hex")));
  const auto result = [&](const std::string& name) { return header_of(odd.at(name)); };
  constexpr ErrorCode kCorrupt = ErrorCode::kCorrupt;

  EXPECT_THAT(result("nothing"), Fails(kCorrupt,
                                       "too short for a safetensors file: expected at "
                                       "least 8 bytes, found 0, file 'a.safetensors'"));
  EXPECT_THAT(result("no header"), Fails(kCorrupt, "does not begin with '{'"));
  EXPECT_THAT(result("length 2^64-1"), AllOf(Fails(kCorrupt, "longer than the file"),
                                             Fails(kCorrupt, "found 18446744073709551615")));
  EXPECT_THAT(result("cut JSON"),
              AllOf(Fails(kCorrupt, "not valid JSON"), Fails(kCorrupt, "offset 13")));
  EXPECT_THAT(result("LFS pointer"), Fails(kCorrupt, "a Git LFS pointer"));
  EXPECT_THAT(result("HTML"), Fails(kCorrupt, "an HTML page"));
  EXPECT_THAT(result("field twice"), Fails(kCorrupt, "'dtype' comes twice: tensor 'a'"));
  EXPECT_THAT(result("metadata twice"), Fails(kCorrupt, "__metadata__ comes twice"));
  EXPECT_THAT(result("metadata of an int"), Fails(kCorrupt, "no object of strings"));
  EXPECT_THAT(result("no dtype"), Fails(kCorrupt, "missing: tensor 'a'"));
  EXPECT_THAT(result("dtype a number"), Fails(kCorrupt, "dtype is no string: tensor 'a'"));
  EXPECT_THAT(result("unknown dtype"), Fails(ErrorCode::kUnsupported, "element type U4"));
  EXPECT_THAT(result("F6_E2M3"), Fails(ErrorCode::kUnsupported, "F6_E2M3"));
  EXPECT_THAT(result("F4 of odd rows"), Fails(ErrorCode::kUnsupported, "last size is odd"));
  EXPECT_THAT(result("negative size"), Fails(kCorrupt, "found a negative number"));
  EXPECT_THAT(result("shape of a float"), Fails(kCorrupt, "shape is no array of sizes"));
  EXPECT_THAT(result("shape of 2^63"),
              Fails(kCorrupt, "a size in shape overflows: tensor 'a', found 9223372036854775808"));
  EXPECT_THAT(result("size overflows"), Fails(kCorrupt, "the shape overflows: tensor 'a'"));
  EXPECT_THAT(result("one offset"), Fails(kCorrupt, "found 1 numbers"));
  EXPECT_THAT(result("three offsets"), Fails(kCorrupt, "found a third number"));
  EXPECT_THAT(result("too short for its shape"),
              Fails(kCorrupt, "tensor 'a', expected 2 bytes, found [0, 1]"));
  EXPECT_THAT(result("hole in front"), Fails(kCorrupt, "a hole in the data before the tensor"));
  EXPECT_THAT(result("overlap"), Fails(kCorrupt, "overlaps the one before it: tensor 'b'"));
  EXPECT_THAT(result("tail"), Fails(kCorrupt, "bytes behind the last tensor"));
  EXPECT_THAT(result("cut off"), Fails(kCorrupt,
                                       "the file ends before its tensors do (cut off?): "
                                       "tensor 'a', expected 1 bytes of data, found 0"));
}

TEST(SafetensorsHeader, ReadsNoMoreThanTheFileAndTheLimitAllow) {
  MemoryFile longer_than_file(std::string("\xFF\xFF\xFF\x7F\0\0\0\0{}", 10));
  EXPECT_THAT(read_header(longer_than_file), Fails(ErrorCode::kCorrupt, "longer than the file"));
  EXPECT_LE(longer_than_file.longest_read, 8u);

  MemoryFile beyond_limit(std::string("\x01\xE1\xF5\x05\0\0\0\0{}", 10));  // 100,000,001
  beyond_limit.claimed_size = 200'000'000;
  EXPECT_THAT(read_header(beyond_limit), Fails(ErrorCode::kLimit, "at most 100000000 bytes"));
  EXPECT_LE(beyond_limit.longest_read, 8u);

  MemoryFile shortened(with_length("{}"));
  shortened.claimed_size = 1'000;
  EXPECT_THAT(read_header(shortened), Fails(ErrorCode::kCorrupt, "bytes behind the last tensor"));
  MemoryFile gone("");
  gone.claimed_size = 1'000;
  EXPECT_THAT(read_header(gone), Fails(ErrorCode::kIo, "a.safetensors"));
}

TEST(SafetensorsHeader, AnyCutOfAFileIsAnError) {
  const std::string content = testing::read_file(golden_path("small.safetensors"));
  for (std::size_t size = 0; size < content.size(); ++size)
    EXPECT_FALSE(header_of(content.substr(0, size)).ok()) << size;
  EXPECT_THAT(header_of(content + '\0'), Fails(ErrorCode::kCorrupt, "bytes behind"));
}

TEST(SafetensorsHeader, DeepNestingIsAnErrorNotACrash) {
  const std::string deep = "{\"a\":{\"z\":" + std::string(100'000, '[');
  EXPECT_THAT(header_of(with_length(deep)), Fails(ErrorCode::kLimit, "deeper than 100"));
}

}  // namespace
}  // namespace shardkit::safetensors
