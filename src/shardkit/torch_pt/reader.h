// read_pt(): a .pt file, as torch.save writes it, as a tree of values; tensor bytes are not read.
#pragma once

#include <cstdint>
#include <string>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"
#include "shardkit/state/value.h"
#include "shardkit/torch_pt/origin.h"

namespace shardkit {

struct PtReadOptions {
  bool verify_crc = false;  ///< also read all tensor data and check its CRC
};

struct PtFile {
  Value root;                       ///< what torch.load would return; a Dict for a state dict
  std::uint64_t bytes = 0;          ///< of the whole file
  std::uint64_t pickle_bytes = 0;   ///< of data.pkl: what reading it takes grows with them
  std::uint32_t directory_crc = 0;  ///< as zip::Archive's: identifies the content cheaply
  PtOrigin origin;
};

/// Reads a file that any PyTorch from 1.6 on wrote with torch.save. No code of the file is run, and
/// nothing is believed before it is checked; docs/formats/torch_pt.md has the rules.
///
/// Storages of the tree are ranges of the file that share one path; tensors of one storage share
/// one Storage object, so that ties can be told. DTensors of equal sharding share one Sharding,
/// and Shardings of equal mesh one DeviceMesh.
///
/// Reads the zip directory, each entry's local header, the pickle, and the rank arrays of device
/// meshes. Time and memory are linear in the number of tensors, whatever their size. The file is
/// closed again.
///
/// @error kNotFound there is no such file; kIo it cannot be read;
///        kCorrupt it is damaged or no .pt file at all (the message says what it seems to be);
///        kUnsafe the pickle names something that is not on the allow list;
///        kUnsupported TorchScript, big-endian data, quantized, sparse and nested tensors, files of
///        the legacy form; kLimit. Errors name file, byte offset, and tensor where there is one.
Result<PtFile> read_pt(FileSystem& fs, const std::string& path, const PtReadOptions& options = {});

/// The same for a file that is open already.
Result<PtFile> read_pt(const RandomAccessFile& file, const PtReadOptions& options = {});

}  // namespace shardkit
