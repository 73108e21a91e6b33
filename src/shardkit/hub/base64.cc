#include "shardkit/hub/base64.h"

#include <string_view>

namespace shardkit::hub {

std::string base64(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve(static_cast<std::size_t>(base64_size(bytes.size())));
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = bytes.size() - i;
    const auto at = [&](std::size_t k) {
      return k < left ? std::to_integer<unsigned>(bytes[i + k]) : 0u;
    };
    const unsigned group = at(0) << 16 | at(1) << 8 | at(2);
    text += kDigits[group >> 18];
    text += kDigits[group >> 12 & 63];
    text += left > 1 ? kDigits[group >> 6 & 63] : '=';
    text += left > 2 ? kDigits[group & 63] : '=';
  }
  return text;
}

}  // namespace shardkit::hub
