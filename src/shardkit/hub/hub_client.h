// HubClient: requests to a Hub and its storage, tried again where that may help.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "shardkit/base/environment.h"
#include "shardkit/base/result.h"
#include "shardkit/hub/access.h"
#include "shardkit/hub/http_connection.h"

namespace shardkit::hub {

/// How often and how soon a request is tried again: after 408, 429, 5xx and where the network
/// fails.
struct RetryPolicy {
  int tries = 9;            ///< of one request, with the first
  int tries_unreached = 3;  ///< the same while no server has answered anything yet
  double first_wait = 0.5;  ///< seconds; doubled each time, up to longest_wait, and some by chance
  double longest_wait = 30;
  double longest_asked_wait = 900;  ///< a server that asks for more is not waited for
};

/// What the clients of one upload share. For any number of threads.
class HubSession {
 public:
  /// @param cancel   set by another thread or a signal to stop everything; may be null
  /// @param on_wait  told, one call at a time, what is waited for; may be empty
  HubSession(Access where, Environment variables, RetryPolicy policy,
             const std::atomic<bool>* cancel, std::function<void(const std::string&)> on_wait)
      : access(std::move(where)),
        environment(std::move(variables)),
        retry(policy),
        cancel_(cancel),
        on_wait_(std::move(on_wait)) {}

  const Access access;
  const Environment environment;
  const RetryPolicy retry;
  std::atomic<bool> has_answered = false;  ///< any server, anything

  void stop() { stopped_ = true; }
  bool is_stopped() const { return stopped_ || (cancel_ && *cancel_); }
  /// Sleeps, a short while at a time. @error kCancelled
  Status wait(double seconds, const std::string& why);

 private:
  const std::atomic<bool>* cancel_;
  std::function<void(const std::string&)> on_wait_;
  std::mutex on_wait_mutex_;
  std::atomic<bool> stopped_ = false;
};

/// One request and how it may be treated.
struct HubRequest {
  HttpRequest http;
  /// Sends the token, if the address is the endpoint's, also after a redirect. Never elsewhere.
  bool with_token = true;
  /// Doing it twice is as good as once. Otherwise an answer of 5xx, or none, is returned and not
  /// tried again, since nobody knows whether it was done.
  bool is_repeatable = true;
};

/// For one thread at a time.
class HubClient {
 public:
  /// @param session  outlives this
  /// @error as HttpConnection::make
  static Result<HubClient> make(HubSession& session);

  HubSession& session() const { return *session_; }

  /// Sends a request until there is an answer that trying again would not change: a success or a
  /// refusal. Follows up to five redirects: of GET, and of 307 and 308.
  /// @error kIo the network, or the server's 5xx or 429, goes on failing; a redirect leads nowhere;
  ///        kCancelled; as HttpConnection::exchange
  Result<HttpResponse> send(HubRequest request);

 private:
  HubClient(HubSession& session, std::unique_ptr<HttpConnection> connection)
      : session_(&session), connection_(std::move(connection)) {}
  Result<HttpResponse> exchange_following(HubRequest& request);

  HubSession* session_;
  std::unique_ptr<HttpConnection> connection_;
};

/// How many seconds an answer asks to wait: Retry-After in seconds or as a date, or the `ratelimit`
/// header of a used-up quota (IETF draft ratelimit-headers-09); 0: nothing.
double asked_wait(const HttpResponse& response);

/// A server's text as it may be shown: one line of at most 300 bytes, without the token.
std::string shown_text(std::string_view text, const Token& token);

/// What a server says about an answer of 4xx or 5xx: its X-Error-Message or the "error" of its
/// JSON, as shown_text(). May be empty.
std::string server_message(const HttpResponse& response, const Token& token);

}  // namespace shardkit::hub
