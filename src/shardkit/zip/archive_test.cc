// Archives that PyTorch wrote, archives of our writer, and every way to lie about an entry.
#include "shardkit/zip/archive.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "shardkit/testing/bytes_file.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"
#include "shardkit/zip/crc32.h"
#include "shardkit/zip/writer.h"

namespace shardkit::zip {
namespace {

using shardkit::testing::BytesFile;
using shardkit::testing::BytesOutput;
using shardkit::testing::Fails;
using shardkit::testing::IsOk;
using shardkit::testing::source_path;
using shardkit::testing::TempDir;
using namespace std::string_literals;
using namespace std::string_view_literals;

Result<Archive> open_path(const std::string& path) {
  SHARDKIT_ASSIGN(const auto file, posix_file_system().open(path));
  return Archive::open(*file);
}

Result<Archive> open_bytes(std::string_view bytes) { return Archive::open(BytesFile(bytes)); }

/// Two entries, as the writer makes them.
std::string sample(const std::function<Status(Writer&)>& more = {}) {
  BytesOutput file;
  Writer writer(file);
  writer.add("a/first", "hello").value();
  writer.add("a/second", "0123456789").value();
  if (more) more(writer).value();
  writer.finish().value();
  return file.bytes();
}

std::string replaced(std::string bytes, std::size_t at, std::string_view with) {
  std::copy(with.begin(), with.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
  return bytes;
}

/// The place of the n-th record with this signature.
std::size_t record(const std::string& bytes, std::string_view signature, int n = 0) {
  std::size_t at = bytes.find(signature);
  while (n-- > 0) at = bytes.find(signature, at + 1);
  return at;
}

/// Knows which bytes were announced, and counts reads of others.
class AnnouncedFile : public BytesFile {
 public:
  using BytesFile::BytesFile;

  void will_read(std::uint64_t offset, std::uint64_t bytes) const override {
    announced_.emplace_back(offset, offset + bytes);
  }
  Status read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    surprises_ += std::none_of(announced_.begin(), announced_.end(), [offset](const auto& range) {
      return range.first <= offset && offset < range.second;
    });
    return BytesFile::read_at(offset, out);
  }
  int surprises() const { return surprises_; }

 private:
  mutable std::vector<std::pair<std::uint64_t, std::uint64_t>> announced_;
  mutable int surprises_ = 0;
};

const std::string_view kLocal("PK\3\4", 4);
const std::string_view kDescriptor("PK\7\x8", 4);
const std::string_view kCentral("PK\1\2", 4);
const std::string_view kEnd64("PK\6\6", 4);
const std::string_view kLocator("PK\6\7", 4);
const std::string_view kEnd("PK\5\6", 4);

TEST(Archive, LocalHeadersAreAnnouncedBeforeTheyAreRead) {
  const std::string bytes = sample([](Writer& writer) -> Status {
    for (int i = 0; i < 3000; ++i)
      SHARDKIT_TRY(writer.add("a/data/" + std::to_string(i), std::string(1000, 'x')));
    return {};
  });
  const AnnouncedFile file(bytes);
  ASSERT_EQ(Archive::open(file).value().entries().size(), 3002u);
  EXPECT_LE(file.surprises(), 5);  // the end's records, the directory, the last descriptor
}

TEST(Crc32, KnownValues) {
  const std::string text = "123456789";  // the check value of every CRC catalogue
  EXPECT_EQ(crc32(std::as_bytes(std::span(text))), 0xcbf43926u);
  EXPECT_EQ(crc32(std::as_bytes(std::span(text)).subspan(4),
                  crc32(std::as_bytes(std::span(text)).first(4))),
            0xcbf43926u);
  EXPECT_EQ(crc32({}, 7), 7u);
}

// Names, sizes, CRCs and offsets are what Python's zipfile says of the same file.
TEST(Archive, ReadsWhatPyTorchWrote) {
  const auto path =
      source_path("tests/fixtures/torch-2.13.0/plain_fp32_w2/model_world_size_2_rank_0.pt");
  const auto archive = open_path(path);
  ASSERT_THAT(archive, IsOk());
  ASSERT_EQ(archive->entries().size(), 8u);
  const Entry& pickle = archive->entries()[0];
  EXPECT_EQ(pickle.name, "model_world_size_2_rank_0/data.pkl");
  EXPECT_EQ(pickle.header_offset, 0u);
  EXPECT_EQ(pickle.offset, 128u);
  const Entry* order = archive->find("model_world_size_2_rank_0/byteorder");
  ASSERT_NE(order, nullptr);
  EXPECT_EQ(order->crc32, 0x19e33d85u);
  const auto file = posix_file_system().open(path).value();
  EXPECT_EQ(read_entry(*file, *order, 100).value(), "little");
  EXPECT_THAT(read_entry(*file, *order, 5), Fails(ErrorCode::kLimit, "too large"));
  for (const Entry& entry : archive->entries()) EXPECT_THAT(verify_entry(*file, entry), IsOk());
  EXPECT_EQ(archive->find("byteorder"), nullptr);
}

TEST(Archive, ReadsWhatItsWriterWrote) {
  const std::string bytes = sample();
  const auto archive = open_bytes(bytes);
  ASSERT_THAT(archive, IsOk());
  ASSERT_EQ(archive->entries().size(), 2u);
  EXPECT_EQ(archive->entries()[1].offset % 64, 0u);
  EXPECT_EQ(bytes.substr(archive->entries()[1].offset, 10), "0123456789");
  EXPECT_NE(archive->directory_crc(),
            open_bytes(sample([](Writer& w) { return w.add("a/third", ""); }))->directory_crc());
}

TEST(Archive, EmptyEntriesHaveNoDescriptor) {
  const auto archive = open_bytes(sample([](Writer& w) { return w.add("a/empty", ""); }));
  ASSERT_THAT(archive, IsOk());
  EXPECT_EQ(archive->entries()[2].bytes, 0u);
}

TEST(Archive, OffsetsAndSizesBeyond32Bits) {
  const TempDir dir;
  auto file = posix_file_system().create(dir / "big.zip").value();
  Writer writer(*file);
  writer.add_hole("a/huge", std::uint64_t{5} << 30).value();
  writer.add("a/after", "x").value();
  writer.finish().value();
  file->close().value();
  const auto archive = open_path(dir / "big.zip");
  ASSERT_THAT(archive, IsOk());
  EXPECT_EQ(archive->entries()[0].bytes, std::uint64_t{5} << 30);
  EXPECT_GT(archive->entries()[1].offset, std::uint64_t{5} << 30);
}

TEST(Archive, FilesThatAreNoArchives) {
  EXPECT_THAT(open_bytes(""), Fails(ErrorCode::kCorrupt, "too short"));
  EXPECT_THAT(open_bytes(std::string(1000, 'x')), Fails(ErrorCode::kCorrupt, "no end record"));
  const std::string bytes = sample();
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THAT(open_bytes(bytes.substr(0, size)), Fails(ErrorCode::kCorrupt, "zip:"));
}

TEST(Archive, DataBeforeBetweenAndAfter) {
  const std::string bytes = sample();
  EXPECT_THAT(open_bytes("#!" + bytes), Fails(ErrorCode::kCorrupt, "not where its locator says"));
  EXPECT_THAT(open_bytes(bytes + "more"), Fails(ErrorCode::kCorrupt, "data after the end record"));
  std::string commented = replaced(bytes, bytes.size() - 2, std::string_view("\4\0", 2)) + "more";
  EXPECT_THAT(open_bytes(commented), Fails(ErrorCode::kCorrupt, "data after the end record"));
}

TEST(Archive, LocalHeadersMustAgree) {
  const std::string bytes = sample();
  const std::size_t second = record(bytes, kLocal, 1);
  EXPECT_THAT(open_bytes(replaced(bytes, second + 30, "b")),
              Fails(ErrorCode::kCorrupt, "the name in a local header"));
  EXPECT_THAT(open_bytes(replaced(bytes, second + 6, std::string_view("\0", 1))),
              Fails(ErrorCode::kCorrupt, "flags or method"));
  EXPECT_THAT(open_bytes(replaced(bytes, second + 8, "\x8")),
              Fails(ErrorCode::kCorrupt, "flags or method"));
  EXPECT_THAT(open_bytes(replaced(bytes, second + 14, "\x1")),
              Fails(ErrorCode::kCorrupt, "size or CRC of a local header"));
  EXPECT_THAT(open_bytes(replaced(bytes, second + 28, "\x1")),
              Fails(ErrorCode::kCorrupt, "belong to no entry"));
  EXPECT_THAT(open_bytes(replaced(bytes, second, "XX")),
              Fails(ErrorCode::kCorrupt, "no local header"));
  EXPECT_THAT(open_bytes(replaced(bytes, second + 18, std::string(8, '\xff'))),
              Fails(ErrorCode::kCorrupt, "a local header's extra fields are broken"));
  EXPECT_THAT(open_bytes(replaced(bytes, record(bytes, kDescriptor) + 8, "\x6")),
              Fails(ErrorCode::kCorrupt, "data descriptor is not the directory's"));
}

TEST(Archive, DirectoryTricks) {
  const std::string bytes = sample();
  const std::size_t first = record(bytes, kCentral);
  const std::size_t second = record(bytes, kCentral, 1);
  EXPECT_THAT(open_bytes(replaced(bytes, first + 8, "\x9")),
              Fails(ErrorCode::kUnsupported, "an encrypted entry"));
  EXPECT_THAT(open_bytes(replaced(bytes, first + 8, "\x48")),
              Fails(ErrorCode::kUnsupported, "an entry with unknown flags 0x0848"));
  EXPECT_THAT(open_bytes(replaced(bytes, first + 10, "\x8")),
              Fails(ErrorCode::kUnsupported, "a compressed entry"));
  EXPECT_THAT(open_bytes(replaced(bytes, first + 34, "\x1")),
              Fails(ErrorCode::kUnsupported, "several disks"));
  EXPECT_THAT(open_bytes(replaced(bytes, first + 24, "\x6")),
              Fails(ErrorCode::kCorrupt, "two sizes"));
  EXPECT_THAT(open_bytes(replaced(replaced(bytes, first + 20, "\x6"), first + 24, "\x6")),
              Fails(ErrorCode::kCorrupt, "belong to no entry"));
  EXPECT_THAT(open_bytes(replaced(bytes, second + 42, bytes.substr(first + 42, 4))),
              Fails(ErrorCode::kCorrupt, "a local header has no room"));
  EXPECT_THAT(open_bytes(replaced(bytes, first + 42, "\x1")),
              Fails(ErrorCode::kCorrupt, "data before the first entry"));
  EXPECT_THAT(open_bytes(replaced(bytes, second, "XX")),
              Fails(ErrorCode::kCorrupt, "a directory entry is missing"));
  EXPECT_THAT(open_bytes(replaced(bytes, second + 28, "\xff")),
              Fails(ErrorCode::kCorrupt, "a directory entry leaves the directory"));
  EXPECT_THAT(open_bytes(replaced(bytes, first + 24, std::string(4, '\xff'))),
              Fails(ErrorCode::kCorrupt, "a directory entry's extra fields are broken"));
  EXPECT_THAT(open_bytes(replaced(bytes, first + 20, "\xff\0\0\0\xff"sv)),
              Fails(ErrorCode::kCorrupt, "overlaps what follows it: found entry 'a/first'"));
  EXPECT_THAT(open_bytes(replaced(bytes, second + 43, "\xff")),
              Fails(ErrorCode::kCorrupt, "in or after the directory: found entry 'a/second'"));
}

TEST(Archive, EndRecordsMustAgree) {
  const std::string bytes = sample();
  const std::size_t wide = record(bytes, kEnd64);
  const std::size_t end = record(bytes, kEnd);
  const auto fails = [](const std::string& changed, const char* says) {
    EXPECT_THAT(open_bytes(changed), Fails(ErrorCode::kCorrupt, says));
  };
  fails(replaced(bytes, wide + 24, "\x3"), "the zip64 end record counts entries in two ways");
  fails(replaced(bytes, end + 10, "\x3"), "the end record and the zip64 end record disagree");
  fails(replaced(replaced(bytes, wide + 40, "\x1"), end + 12, std::string(4, '\xff')),
        "the directory does not reach the zip64 end record: found 1 bytes from 154 on");
  const auto counting = [&](std::string_view entries) {
    return replaced(replaced(replaced(replaced(bytes, wide + 24, entries), wide + 32, entries),
                             end + 8, entries),
                    end + 10, entries);
  };
  fails(counting("\x1"), "the directory holds more than its entries");
  fails(counting("\x9"), "more entries than the directory can hold: found 9");
  fails(bytes.substr(record(bytes, kLocator)), "the zip64 end records do not fit");

  const std::string narrow = bytes.substr(0, wide) + bytes.substr(end);  // numbers of 32 bits
  ASSERT_THAT(open_bytes(narrow), IsOk());
  const std::size_t narrow_end = record(narrow, kEnd);
  fails(replaced(narrow, narrow_end + 8, "\x3"), "the end record counts entries in two ways");
  fails(replaced(narrow, narrow_end + 12, "\x1"),
        "the directory does not reach the end record: found 1 bytes from 154 on");
}

/// A file of a hole and an end record, which says that the hole is the directory.
TEST(Archive, TheDirectoryIsBounded) {
  const TempDir dir;
  auto file = posix_file_system().create(dir / "big.zip").value();
  const std::uint64_t bytes = Archive::kMaxDirectoryBytes + 1;
  const std::string end = "PK\5\6\0\0\0\0\0\0\0\0\1\0\0\x10\0\0\0\0\0\0"s;
  file->write_at(bytes, std::as_bytes(std::span(end))).value();
  file->close().value();
  EXPECT_THAT(open_path(dir / "big.zip"),
              Fails(ErrorCode::kLimit,
                    "the directory is too large: expected at most 268435456 "
                    "bytes, found 268435457"));
}

TEST(Archive, NamesThatLeaveTheFolder) {
  const std::pair<std::string_view, const char*> kFaults[] = {
      {"../x", "a name that leaves its folder: found entry '../x'"},
      {"a/../../x", "a name that leaves its folder: found entry 'a/../../x'"},
      {"a/..", "a name that leaves its folder: found entry 'a/..'"},
      {"/etc/x", "an absolute name: found entry '/etc/x'"},
      {"a\\b", "a name with a backslash: found entry 'a\\b'"},
      {"a\0b"sv, "a name with a zero byte"},
      {"", "an entry without a name"}};
  for (const auto& [name, fault] : kFaults)
    EXPECT_THAT(open_bytes(sample([name = name](Writer& w) { return w.add(name, "x"); })),
                Fails(ErrorCode::kUnsafe, fault));
}

TEST(Archive, TwoEntriesOfOneName) {
  EXPECT_THAT(open_bytes(sample([](Writer& w) { return w.add("a/first", "other"); })),
              Fails(ErrorCode::kCorrupt, "two entries of one name"));
}

TEST(Archive, TheCrcOfDataIsCheckedWhenRead) {
  std::string bytes = sample();
  bytes[bytes.find("hello")] = 'j';
  const BytesFile file(bytes);
  const auto archive = Archive::open(file);
  ASSERT_THAT(archive, IsOk());
  EXPECT_THAT(read_entry(file, archive->entries()[0], 100),
              Fails(ErrorCode::kCorrupt, "the CRC of 'a/first'"));
  EXPECT_THAT(verify_entry(file, archive->entries()[0]),
              Fails(ErrorCode::kCorrupt, "the CRC of 'a/first'"));
}

/// Every single bit flipped: an error, or the same entries at the same places.
TEST(Archive, EveryFlippedBitIsFoundOrHarmless) {
  const std::string bytes = sample();
  const auto whole = open_bytes(bytes);
  ASSERT_THAT(whole, IsOk());
  int accepted = 0;
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    const auto archive = open_bytes(flipped);
    if (!archive.ok()) continue;
    ++accepted;
    ASSERT_EQ(archive->entries().size(), 2u) << "bit " << bit;
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(archive->entries()[i].name, whole->entries()[i].name) << "bit " << bit;
      EXPECT_EQ(archive->entries()[i].offset, whole->entries()[i].offset) << "bit " << bit;
      EXPECT_EQ(archive->entries()[i].bytes, whole->entries()[i].bytes) << "bit " << bit;
      EXPECT_EQ(archive->entries()[i].crc32, whole->entries()[i].crc32) << "bit " << bit;
    }
  }
  EXPECT_GT(accepted, 0) << "padding and times may change";
}

}  // namespace
}  // namespace shardkit::zip
