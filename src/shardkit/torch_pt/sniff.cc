#include "shardkit/torch_pt/sniff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace shardkit {
namespace {

using namespace std::string_view_literals;

Error corrupt(std::string what) { return {ErrorCode::kCorrupt, std::move(what)}; }
Error unsupported(std::string what) { return {ErrorCode::kUnsupported, std::move(what)}; }

/// The magic number 0x1950a86a20f9469cfc6c of torch/serialization.py, as protocol 2 pickles it.
constexpr std::string_view kLegacyMagic = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv;

bool is_safetensors(std::string_view head, std::uint64_t size) {
  if (head.size() < 9 || head[8] != '{') return false;
  std::uint64_t header = 0;
  for (std::size_t i = 8; i-- > 0;) header = header << 8 | static_cast<std::uint8_t>(head[i]);
  return header <= size - 8;
}

std::string first_bytes(std::string_view head) {
  std::string hex;
  for (const char c : head.substr(0, 8))
    hex += fmt::format("{}{:02x}", hex.empty() ? "" : " ", static_cast<std::uint8_t>(c));
  return hex;
}

}  // namespace

Status check_looks_like_pt(std::string_view head, std::uint64_t size) {
  if (head.starts_with("PK\3\4"sv)) return {};
  if (size == 0) return corrupt("the file is empty");
  if (std::all_of(head.begin(), head.end(), [](char c) { return c == '\0'; }))
    return corrupt("the file begins with zeros only: room was made for it, but it was not written");
  if (head.starts_with("version https://git-lfs"sv))
    return corrupt("a Git LFS pointer stands in place of the file: fetch it with 'git lfs pull'");
  if (head.starts_with("\x80"sv) && head.size() > 2) {
    if (head.substr(2).starts_with(kLegacyMagic))
      return unsupported(
          "the file is a .pt of the legacy form (PyTorch before 1.6, or "
          "_use_new_zipfile_serialization=False): load it and torch.save it again");
    if (head[1] >= 2 && head[1] <= 5)
      return unsupported("the file is a bare pickle, not an archive as torch.save writes it");
  }
  if (is_safetensors(head, size)) return unsupported("the file is a safetensors file, no .pt");
  if (head.size() >= 262 && head.substr(257, 5) == "ustar"sv)
    return unsupported("the file is a tar archive (PyTorch before 0.1.10, or packed by hand)");
  for (const auto& [magic, name] : {std::pair{"\x1f\x8b"sv, "gzip"sv},
                                    {"\x28\xb5\x2f\xfd"sv, "zstd"sv},
                                    {"\xfd\x37zXZ"sv, "xz"sv},
                                    {"BZh"sv, "bzip2"sv}})
    if (head.starts_with(magic))
      return unsupported(fmt::format("the file is compressed with {}: unpack it first", name));

  const auto text = std::find_if_not(head.begin(), head.end(), [](char c) {
    return std::isspace(static_cast<unsigned char>(c)) != 0;
  });
  if (text != head.end() && *text == '<')
    return corrupt("an HTML or XML page stands in place of the file: the download failed");
  if (text != head.end() && (*text == '{' || *text == '['))
    return corrupt("JSON stands in place of the file");
  if (head.starts_with("PK\5\6"sv)) return corrupt("the file is an empty zip archive");
  return corrupt("the file is no zip archive, as torch.save writes")
      .expected("the bytes 50 4b 03 04 first")
      .found(first_bytes(head));
}

}  // namespace shardkit
