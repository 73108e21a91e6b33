#include "shardkit/hub/url.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace shardkit::hub {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](char c) { return lower(c); });
  return result;
}

Error bad_url(std::string_view why) {
  return Error(ErrorCode::kCorrupt, fmt::format("an address is no http(s) address: {}", why));
}

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

int default_port(std::string_view scheme) { return scheme == "https" ? 443 : 80; }

}  // namespace

std::string Url::text() const {
  const std::string place = port == default_port(scheme)
                                ? fmt::format("{}://{}", scheme, host)
                                : fmt::format("{}://{}:{}", scheme, host, port);
  return place + target;
}

std::string Url::shown() const {
  const std::string all = text();
  return all.substr(0, all.find('?'));
}

bool Url::has_origin_of(const Url& other) const {
  return scheme == other.scheme && host == other.host && port == other.port;
}

Result<Url> parse_url(std::string_view text) {
  if (text.size() > kLongestUrl) return bad_url("it is too long");
  for (const char c : text)
    if (c <= ' ' || c >= 0x7f || c == '\\' || c == '"' || c == '<' || c == '>')
      return bad_url("it holds a character that must be encoded");
  Url url;
  const std::size_t scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos) return bad_url("it has no scheme");
  url.scheme = lower(text.substr(0, scheme_end));
  if (url.scheme != "http" && url.scheme != "https") return bad_url("another scheme");
  text.remove_prefix(scheme_end + 3);
  text = text.substr(0, text.find('#'));
  const std::size_t place_end = std::min(text.find_first_of("/?"), text.size());
  std::string_view place = text.substr(0, place_end);
  url.target = text.substr(place_end);
  if (place.find('@') != std::string_view::npos) return bad_url("it holds a user name");

  const bool is_ipv6 = place.starts_with('[');
  const std::size_t host_end =
      is_ipv6 ? place.find(']') + 1 : std::min(place.find(':'), place.size());
  if (is_ipv6 && host_end == 0) return bad_url("a bracket is not closed");
  url.host = lower(place.substr(0, host_end));
  const auto is_ok = [&](char c) {
    return is_host_character(c) || (is_ipv6 && (c == ':' || c == '[' || c == ']'));
  };
  if (url.host.empty() || !std::all_of(url.host.begin(), url.host.end(), is_ok))
    return bad_url("it has no host");
  place.remove_prefix(host_end);
  url.port = default_port(url.scheme);
  if (!place.empty()) {
    place.remove_prefix(1);
    const auto [end, error] = std::from_chars(place.data(), place.data() + place.size(), url.port);
    if (error != std::errc() || end != place.data() + place.size() || url.port < 1 ||
        url.port > 65535)
      return bad_url("its port is no port");
  }
  return url;
}

Result<Url> follow(const Url& base, std::string_view location) {
  Url url = base;
  if (location.starts_with('/') && !location.starts_with("//")) {
    url.target.clear();
    SHARDKIT_ASSIGN(url, parse_url(url.text() + std::string(location)));
    return url;
  }
  SHARDKIT_ASSIGN(url, parse_url(location));
  if (base.scheme == "https" && url.scheme == "http")
    return Error(ErrorCode::kUnsafe, "the server leads from https to http").found(url.shown());
  return url;
}

std::string encode_component(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (is_host_character(lower(c)) || c == '~') {
      result += c;
    } else {
      result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return result;
}

}  // namespace shardkit::hub
