// The element type that merged weights get: what the user chose, applied to what is stored.
#pragma once

#include <optional>
#include <string_view>

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
  DType dtype = DType::kBFloat16;  ///< of kCast
};

/// Parses bfloat16 | bf16 | float16 | fp16 | float32 | fp32 | keep | auto.
/// @error kInvalidArgument another text; the message lists these
Result<DTypeChoice> parse_dtype_choice(std::string_view text);

/// Replaces kAuto by what the config says: kCast to its dtype.
/// @error kInvalidArgument kAuto, and there is no config or it names no dtype to cast to
Result<DTypeChoice> resolve(DTypeChoice choice, const ModelConfig* config);

/// The type a tensor is written in. Only float64, float32, float16 and bfloat16 are ever cast.
/// REQUIRES: choice.kind is not kAuto.
DType output_dtype(DTypeChoice choice, DType stored);

}  // namespace shardkit::hf
