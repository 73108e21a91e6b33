// The element type that merged weights get: what the user chose, applied to what is stored.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/hf/config.h"
#include "shardkit/tensor/dtype.h"

namespace shardkit::hf {

struct DTypeChoice {
  enum class Kind {
    kKeep,  ///< each tensor as it is stored
    kAuto,  ///< what config.json says
    kCast,  ///< `dtype`
  };

  Kind kind = Kind::kCast;
  DType dtype = DType::kBFloat16;      ///< of kCast
  std::vector<std::string> keep = {};  ///< patterns of names that stay as stored; see hf::matches
};

/// Parses bfloat16 | bf16 | float16 | fp16 | float32 | fp32 | keep | auto.
/// @error kInvalidArgument another text; the message lists these
Result<DTypeChoice> parse_dtype_choice(std::string_view text);

/// Replaces kAuto by what the config says: kCast to its dtype.
/// @error kInvalidArgument kAuto, and there is no config or it names no dtype to cast to
Result<DTypeChoice> resolve(DTypeChoice choice, const ModelConfig* config);

/// The type a tensor is written in. Only float64, float32, float16 and bfloat16 are ever cast.
/// REQUIRES: choice.kind is not kAuto.
/// @param name  as it is written
DType output_dtype(const DTypeChoice& choice, std::string_view name, DType stored);

/// Whether it is one of the 8-bit floats that hold quantized weights.
bool is_float8(DType dtype);

/// Patterns of the names that the scales of 8-bit floats have (transformers 5.24,
/// integrations/finegrained_fp8.py; compressed-tensors 0.10, quantization/lifecycle/initialize.py),
/// and those of 4-bit floats, whose scales are 8-bit floats with a scale of their own (ModelOpt's
/// weight_scale_2, compressed-tensors' weight_global_scale). A scale in another type gives other
/// weights.
std::span<const std::string_view> float8_scale_patterns();

}  // namespace shardkit::hf
