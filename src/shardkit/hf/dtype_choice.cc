// Parses and applies the choice of an element type.
#include "shardkit/hf/dtype_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "shardkit/hf/name_pattern.h"

namespace shardkit::hf {
namespace {

using Kind = DTypeChoice::Kind;

struct NamedChoice {
  std::string_view name;
  Kind kind;
  DType dtype;
};

constexpr std::array kChoices{
    NamedChoice{"bfloat16", Kind::kCast, DType::kBFloat16},
    NamedChoice{"bf16", Kind::kCast, DType::kBFloat16},
    NamedChoice{"float16", Kind::kCast, DType::kFloat16},
    NamedChoice{"fp16", Kind::kCast, DType::kFloat16},
    NamedChoice{"float32", Kind::kCast, DType::kFloat32},
    NamedChoice{"fp32", Kind::kCast, DType::kFloat32},
    NamedChoice{"keep", Kind::kKeep, DType::kBFloat16},
    NamedChoice{"auto", Kind::kAuto, DType::kBFloat16},
};

constexpr std::array<std::string_view, 8> kFloat8Scales{
    "*_scale_inv",  "*weight_scale",     "*weight_scale_2", "*_global_scale",
    "*input_scale", "*activation_scale", "*.k_scale",       "*.v_scale"};

}  // namespace

Result<DTypeChoice> parse_dtype_choice(std::string_view text) {
  std::string names;
  for (const NamedChoice& choice : kChoices) {
    if (choice.name == text) return DTypeChoice{choice.kind, choice.dtype};
    if (!names.empty()) names += ", ";
    names += choice.name;
  }
  return Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is no choice of dtype", text))
      .expected(names);
}

Result<DTypeChoice> resolve(DTypeChoice choice, const ModelConfig* config) {
  if (choice.kind != Kind::kAuto) return choice;
  if (config == nullptr)
    return Error(ErrorCode::kInvalidArgument,
                 "dtype auto takes the dtype of config.json, and there is none; name a dtype");
  if (!config->dtype)
    return Error(ErrorCode::kInvalidArgument,
                 "dtype auto takes the dtype of config.json, which names none; name a dtype");
  if (!is_castable_float(*config->dtype))
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("config.json says {}, which weights are not cast to; name a dtype",
                             torch_name(*config->dtype)));
  return DTypeChoice{Kind::kCast, *config->dtype, std::move(choice.keep)};
}

DType output_dtype(const DTypeChoice& choice, std::string_view name, DType stored) {
  if (choice.kind != Kind::kCast || !is_castable_float(stored)) return stored;
  const bool kept =
      std::any_of(choice.keep.begin(), choice.keep.end(),
                  [name](const std::string& pattern) { return matches(pattern, name); });
  return kept ? stored : choice.dtype;
}

bool is_float8(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ: return true;
    default: return false;
  }
}

std::span<const std::string_view> float8_scale_patterns() { return kFloat8Scales; }

}  // namespace shardkit::hf
