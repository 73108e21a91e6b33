// TensorInfo: what a rank must know of a tensor before its elements come.
#pragma once

#include <string>

#include "shardkit/base/dims.h"
#include "shardkit/tensor/dtype.h"

namespace shardkit {

/// Shape and dtype of a whole tensor (torch 2.13, torch/distributed/_state_dict_utils.py,
/// _TensorInfo).
struct TensorInfo {
  Dims size;
  DType dtype = DType::kFloat32;

  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

/// One with its key in a state dict.
struct NamedTensorInfo {
  std::string name;
  TensorInfo info;

  friend bool operator==(const NamedTensorInfo&, const NamedTensorInfo&) = default;
};

}  // namespace shardkit
