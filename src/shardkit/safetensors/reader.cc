// Makes tensors over file ranges from a safetensors header.
#include "shardkit/safetensors/reader.h"

#include <memory>
#include <utility>

#include "shardkit/base/checked_math.h"
#include "shardkit/safetensors/header.h"

namespace shardkit::safetensors {

Result<Dict> read_safetensors(FileSystem& fs, const std::string& path) {
  SHARDKIT_ASSIGN(const std::unique_ptr<RandomAccessFile> file, fs.open(path));
  SHARDKIT_ASSIGN(Header header, read_header(*file));

  const auto shared_path = std::make_shared<const std::string>(path);
  Dict dict;
  dict.items.reserve(header.tensors.size());
  for (TensorRecord& record : header.tensors) {
    Tensor tensor;
    tensor.dtype = record.dtype;
    tensor.strides = contiguous_strides(record.shape);
    tensor.shape = std::move(record.shape);
    tensor.storage = std::make_shared<const Storage>(
        FileRange{shared_path, header.data_offset + record.begin}, record.end - record.begin);
    dict.items.emplace_back(std::move(record.name), std::move(tensor));
  }
  return dict;
}

}  // namespace shardkit::safetensors
