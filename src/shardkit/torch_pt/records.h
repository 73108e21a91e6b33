// PtRecords: the records of a .pt archive, and the storages that its pickle refers to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"
#include "shardkit/tensor/storage.h"
#include "shardkit/zip/archive.h"

namespace shardkit {

/// Records lie under one name ("archive/data.pkl"): the first path component of every entry, which
/// may be anything. docs/formats/torch_pt.md lists them.
class PtRecords {
 public:
  /// Opens the archive and checks the small records (CRC, byte order, version).
  ///
  /// @param verify_crc  also read all tensor data and check its CRC
  /// @error kCorrupt, kUnsupported, kUnsafe, kLimit, kIo as zip::Archive::open() and
  ///        check_looks_like_pt(); kUnsupported big-endian data, TorchScript, another zip file
  static Result<PtRecords> open(const RandomAccessFile& file, bool verify_crc);

  /// data.pkl. @error kCorrupt its CRC differs; kLimit; kIo
  Result<std::string> read_pickle() const;
  /// Of data.pkl.
  std::uint64_t pickle_bytes() const { return pickle_->bytes; }
  /// Of data.pkl's first byte in the file.
  std::uint64_t pickle_offset() const { return pickle_->offset; }

  /// The storage of a key; asked again, the same object. All storages of a file lie in one block of
  /// memory, which lives as long as any of them.
  ///
  /// @param count, item_bytes  the size that the pickle states. The record may be longer by less
  ///        than one item (a storage of 7 bytes, seen as float32, counts 1).
  /// @error kCorrupt there is no such record, or its size is another
  Result<std::shared_ptr<const Storage>> storage(std::string_view key, std::int64_t count,
                                                 std::int64_t item_bytes);

  /// The bytes of a small storage, CRC checked. REQUIRES: storage() returned it.
  /// @error kLimit, kCorrupt, kIo
  Result<std::string> read_storage(const Storage& storage) const;

  std::uint32_t directory_crc() const { return archive_.directory_crc(); }

 private:
  PtRecords(const RandomAccessFile& file, zip::Archive archive);

  Error error(ErrorCode code, std::string what) const;
  Status check_names();
  Status check_small_records() const;

  const RandomAccessFile* file_;
  zip::Archive archive_;
  std::shared_ptr<const std::string> path_;  // shared by all storages
  std::string prefix_;                       // "archive/"
  const zip::Entry* pickle_ = nullptr;
  std::string name_;                                // of the record asked for last
  std::shared_ptr<std::vector<Storage>> storages_;  // never more than there are entries
  std::vector<std::uint32_t> storage_of_entry_;     // index into storages_ plus 1; 0: none yet
  std::vector<const zip::Entry*> entry_of_storage_;
};

}  // namespace shardkit
