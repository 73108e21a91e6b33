// Parses and applies the choice of an element type.
#include "shardkit/hf/dtype_choice.h"

#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace shardkit::hf {
namespace {

using Kind = DTypeChoice::Kind;

constexpr std::array<std::pair<std::string_view, DTypeChoice>, 8> kChoices{{
    {"bfloat16", {Kind::kCast, DType::kBFloat16}},
    {"bf16", {Kind::kCast, DType::kBFloat16}},
    {"float16", {Kind::kCast, DType::kFloat16}},
    {"fp16", {Kind::kCast, DType::kFloat16}},
    {"float32", {Kind::kCast, DType::kFloat32}},
    {"fp32", {Kind::kCast, DType::kFloat32}},
    {"keep", {Kind::kKeep, DType::kBFloat16}},
    {"auto", {Kind::kAuto, DType::kBFloat16}},
}};

}  // namespace

Result<DTypeChoice> parse_dtype_choice(std::string_view text) {
  std::string names;
  for (const auto& [name, choice] : kChoices) {
    if (name == text) return choice;
    if (!names.empty()) names += ", ";
    names += name;
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
  return DTypeChoice{Kind::kCast, *config->dtype};
}

DType output_dtype(DTypeChoice choice, DType stored) {
  const bool cast = choice.kind == Kind::kCast && is_castable_float(stored);
  return cast ? choice.dtype : stored;
}

}  // namespace shardkit::hf
