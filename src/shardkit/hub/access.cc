#include "shardkit/hub/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "shardkit/io/path.h"

namespace shardkit::hub {
namespace {

constexpr std::string_view kPublicHub = "https://huggingface.co";
constexpr std::uint64_t kLargestTokenFile = 64 << 10;

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

/// The value of a variable that is there and not empty.
std::optional<std::string> value_of(const Environment& environment, const char* name) {
  auto value = environment(name);
  if (value && stripped(*value).empty()) value.reset();
  return value;
}

/// "~/x" as a path below the home folder.
std::string with_home(const Environment& environment, std::string path) {
  const bool is_home = path == "~" || path.starts_with("~/");
  const auto home = value_of(environment, "HOME");
  return is_home && home ? *home + path.substr(1) : path;
}

std::string token_path(const Environment& environment) {
  if (const auto path = value_of(environment, "HF_TOKEN_PATH"))
    return with_home(environment, *path);
  if (const auto home = value_of(environment, "HF_HOME"))
    return join_path(with_home(environment, *home), "token");
  if (const auto cache = value_of(environment, "XDG_CACHE_HOME"))
    return join_path(with_home(environment, *cache), "huggingface/token");
  return with_home(environment, "~/.cache/huggingface/token");
}

Result<Url> read_endpoint(const Environment& environment) {
  std::string text(
      stripped(value_of(environment, "HF_ENDPOINT").value_or(std::string(kPublicHub))));
  while (text.ends_with('/')) text.pop_back();
  const auto url = parse_url(text);
  if (!url.ok() || url->target.find('?') != std::string::npos)
    return Error(ErrorCode::kInvalidArgument, "HF_ENDPOINT is no http(s) address")
        .expected("as https://huggingface.co");
  return *url;
}

Result<Token> read_token(FileSystem& fs, const Environment& environment) {
  if (const auto secret = value_of(environment, "HF_TOKEN"))
    return Token::make(*secret, "HF_TOKEN");
  const std::string path = token_path(environment);
  const auto secret = read_whole_file(fs, path, kLargestTokenFile);
  if (secret.ok()) return Token::make(*secret, fmt::format("the file '{}'", path));
  if (secret.error().code() != ErrorCode::kNotFound) return secret.error();
  return Error(ErrorCode::kInvalidArgument,
               "no token for the Hub: set HF_TOKEN, or keep one where `hf auth login` does")
      .in_file(path);
}

}  // namespace

Result<Token> Token::make(std::string_view secret, std::string source) {
  secret = stripped(secret);
  const bool is_ok = !secret.empty() && std::all_of(secret.begin(), secret.end(),
                                                    [](char c) { return c > ' ' && c < 0x7f; });
  if (!is_ok)
    return Error(ErrorCode::kInvalidArgument, fmt::format("what {} holds is no token", source));
  return Token(std::string(secret), std::move(source));
}

std::string Token::redact(std::string_view text) const {
  std::string result;
  for (std::size_t at = text.find(secret_); at != std::string_view::npos; at = text.find(secret_)) {
    result += text.substr(0, at);
    result += "***";
    text.remove_prefix(at + secret_.size());
  }
  result += text;
  return result;
}

Error Token::redact(const Error& error) const {
  Error result(error.code(), redact(error.what()));
  if (error.file()) result = std::move(result).in_file(redact(*error.file()));
  if (error.offset()) result = std::move(result).at_offset(*error.offset());
  if (error.expected_text()) result = std::move(result).expected(redact(*error.expected_text()));
  if (error.found_text()) result = std::move(result).found(redact(*error.found_text()));
  if (error.system_number()) result = std::move(result).from_system(*error.system_number());
  return result;
}

Result<Access> read_access(FileSystem& fs, const Environment& environment) {
  SHARDKIT_ASSIGN(Url endpoint, read_endpoint(environment));
  SHARDKIT_ASSIGN(Token token, read_token(fs, environment));
  return Access{std::move(endpoint), std::move(token)};
}

}  // namespace shardkit::hub
