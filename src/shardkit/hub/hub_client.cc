#include "shardkit/hub/hub_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <optional>
#include <string_view>
#include <thread>

#include "shardkit/base/random_number.h"
#include "shardkit/json/parse.h"
#include "shardkit/json/utf8.h"

namespace shardkit::hub {
namespace {

constexpr int kMostRedirects = 5;
constexpr std::size_t kLongestMessage = 300;

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool may_be_retried(const HttpResponse& response) {
  if (response.status == 0) return !response.is_final;
  // 501: no such method; 507: the storage is full.
  return response.status == 408 || response.status == 429 ||
         (response.status >= 500 && response.status != 501 && response.status != 507);
}

std::string seconds_text(double seconds) {
  return seconds < 10 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.0f} s", seconds);
}

/// The number that follows `key` in a header such as `"api";r=0;t=55`.
std::optional<int> number_after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  int number = 0;
  const char* begin = text.data() + at + key.size();
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  return number;
}

std::string describe(const HttpResponse& response) {
  return response.status == 0 ? response.failure : fmt::format("status {}", response.status);
}

}  // namespace

double asked_wait(const HttpResponse& response) {
  if (const auto limit = response.header("ratelimit"); response.status == 429) {
    const auto left = number_after(limit, ";r=");
    const auto seconds = number_after(limit, ";t=");
    if (left == 0 && seconds) return *seconds + 1.0;  // it is rounded down
  }
  const std::string text(response.header("retry-after"));
  if (text.empty()) return 0;
  if (std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return text.size() > 9 ? 1e9 : std::stod(text);
  std::tm date{};
  if (!::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date)) return 0;
  return std::max(0.0, std::difftime(::timegm(&date), std::time(nullptr)));
}

std::string shown_text(std::string_view text, const Token& token) {
  const std::string redacted = token.redact(text);
  std::string clean;
  for (std::size_t at = 0; at < redacted.size() && clean.size() < kLongestMessage;) {
    const json::CodePoint point = json::decode_utf8(redacted, at);
    const bool is_shown = point.bytes > 0 && point.value >= ' ' && point.value != 0x7f &&
                          !(point.value >= 0x80 && point.value < 0xa0);
    clean += is_shown ? redacted.substr(at, point.bytes) : " ";
    at += std::max<std::size_t>(point.bytes, 1);
  }
  return clean;
}

std::string server_message(const HttpResponse& response, const Token& token) {
  std::string text(response.header("x-error-message"));
  if (text.empty()) {
    const auto answer = json::parse(response.body);
    const json::Value* error = answer.ok() ? answer->find("error") : nullptr;
    if (!error && answer.ok()) error = answer->find("message");  // as Git LFS has it
    if (error && error->get_if<std::string>()) text = *error->get_if<std::string>();
  }
  return shown_text(text, token);
}

Status HubSession::wait(double seconds, const std::string& why) {
  using Clock = std::chrono::steady_clock;
  if (on_wait_ && seconds >= 1) {
    const std::lock_guard lock(on_wait_mutex_);
    on_wait_(
        access.token.redact(fmt::format("{}; trying again in {}", why, seconds_text(seconds))));
  }
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (!is_stopped() && Clock::now() < end)
    std::this_thread::sleep_for(
        std::min<std::chrono::duration<double>>(end - Clock::now(), std::chrono::milliseconds(50)));
  if (is_stopped()) return Error(ErrorCode::kCancelled, "the upload was stopped");
  return {};
}

Result<HubClient> HubClient::make(HubSession& session) {
  SHARDKIT_ASSIGN(auto connection, HttpConnection::make(session.environment, [&session] {
                    return session.is_stopped();
                  }));
  return HubClient(session, std::move(connection));
}

Result<HttpResponse> HubClient::exchange_following(HubRequest& request) {
  const Access& access = session_->access;
  const std::vector<std::string> headers = request.http.headers;
  for (int redirects = 0;; ++redirects) {
    request.http.headers = headers;
    if (request.with_token && request.http.url.has_origin_of(access.endpoint))
      request.http.headers.push_back(access.token.header());
    auto response = connection_->exchange(request.http);
    request.http.headers = headers;
    if (!response.ok()) return std::move(response).error();
    if (response->status != 0) session_->has_answered = true;
    if (!is_redirect(response->status)) return response;

    const std::string_view location = response->header("location");
    const bool keeps_method = response->status == 307 || response->status == 308;
    if (location.empty() || redirects == kMostRedirects ||
        (request.http.method != "GET" && !keeps_method))
      return Error(ErrorCode::kIo, "the server's redirect cannot be followed")
          .found(fmt::format("status {} from {}", response->status, request.http.url.shown()));
    auto next = follow(request.http.url, location);
    if (!next.ok())
      return Error(ErrorCode::kIo, "the server's redirect cannot be followed")
          .found(next.error().message());
    request.http.url = *std::move(next);
  }
}

Result<HttpResponse> HubClient::send(HubRequest request) {
  const RetryPolicy& retry = session_->retry;
  const Url first = request.http.url;
  if (!request.is_repeatable) request.http.on_new_connection = true;
  double wait = retry.first_wait;
  for (int tries = 1;; ++tries) {
    if (session_->is_stopped()) return Error(ErrorCode::kCancelled, "the upload was stopped");
    request.http.url = first;
    SHARDKIT_ASSIGN(HttpResponse response, exchange_following(request));
    if (!may_be_retried(response) && response.status != 0) return response;
    const bool was_refused = response.status == 429;
    if (!request.is_repeatable && !was_refused) return response;

    const double asked = asked_wait(response);
    const int most =
        session_->has_answered ? retry.tries : std::min(retry.tries, retry.tries_unreached);
    if (!may_be_retried(response) || tries >= most || asked > retry.longest_asked_wait) {
      Error error(ErrorCode::kIo,
                  response.status == 0
                      ? fmt::format("the network fails: {}", response.failure)
                      : fmt::format("the server is busy or broken: status {}", response.status));
      if (asked > retry.longest_asked_wait)
        return std::move(error).found(fmt::format("it asks to wait {}", seconds_text(asked)));
      const std::string says = server_message(response, session_->access.token);
      return std::move(error).found(fmt::format(
          "{} {} to {} {}{}{}", tries, tries == 1 ? "try" : "tries", request.http.method,
          request.http.url.shown(), says.empty() ? "" : "; it says: ", says));
    }
    // By chance, so that those who were refused together do not come back together.
    const auto random = random_number();
    const double chance = 0.75 + (random.ok() ? static_cast<double>(*random % 1024) / 2048 : 0.25);
    SHARDKIT_TRY(
        session_->wait(std::max(asked, wait * chance),
                       fmt::format("{} answers {}", request.http.url.host, describe(response))));
    wait = std::min(wait * 2, retry.longest_wait);
  }
}

}  // namespace shardkit::hub
