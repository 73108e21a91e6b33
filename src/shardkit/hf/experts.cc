#include "shardkit/hf/experts.h"

#include <charconv>

namespace shardkit::hf {

std::optional<ExpertName> parse_expert_name(std::string_view name) {
  constexpr std::string_view kPart = ".experts.";
  const std::size_t at = name.find(kPart);
  if (at == name.npos) return std::nullopt;
  ExpertName result;
  result.layer = name.substr(0, at + kPart.size() - 1);
  const std::string_view rest = name.substr(at + kPart.size());
  std::int64_t expert = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), expert);
  if (error == std::errc() && expert >= 0 && end != rest.data() + rest.size() && *end == '.') {
    result.expert = expert;
    return result;
  }
  if (rest.starts_with("gate_up_proj") || rest.starts_with("down_proj")) return result;
  return std::nullopt;
}

}  // namespace shardkit::hf
