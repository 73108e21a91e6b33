// HttpConnection: one HTTP request and its answer, over libcurl.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardkit/base/environment.h"
#include "shardkit/base/result.h"
#include "shardkit/hub/request_body.h"
#include "shardkit/hub/url.h"

namespace shardkit::hub {

struct HttpRequest {
  std::string method = "GET";
  Url url;
  std::vector<std::string> headers;  ///< "Name: value"
  RequestBody* body = nullptr;       ///< null: none
  /// Largest answer that is taken; a longer one is an error.
  std::size_t most_answer_bytes = 8u << 20;
  /// How long nothing may move before the connection counts as dead.
  int silence_seconds = 120;
  /// Not over a connection that was used before: where the server has closed one meanwhile, libcurl
  /// sends the request again, whatever became of it.
  bool on_new_connection = false;
  /// Told, several times a second, how many bytes of the body have gone out.
  std::function<void(std::uint64_t bytes)> on_sent;
};

struct HttpResponse {
  int status = 0;         ///< 0: no answer came
  std::string failure;    ///< why none came
  bool is_final = false;  ///< none would come another time either: an unproven certificate
  std::vector<std::pair<std::string, std::string>> headers;  ///< names in lower case
  std::string body;

  /// The value of a header, or empty. `name` in lower case.
  std::string_view header(std::string_view name) const;
};

/// Keeps connections open between requests. Certificates are always checked: against the system's,
/// or those of the file SSL_CERT_FILE. Redirects are answers like others. For one thread at a time.
///
/// libcurl is loaded when the first is made, so that a program which sends nothing does not wait
/// for it, and can do without. CURL's variables for proxies (https_proxy, no_proxy) hold.
class HttpConnection {
 public:
  /// @param is_cancelled  asked several times a second; says true to end a request
  /// @error kUnsupported there is no libcurl, by name
  static Result<std::unique_ptr<HttpConnection>> make(const Environment& environment,
                                                      std::function<bool()> is_cancelled);
  virtual ~HttpConnection() = default;

  /// Sends a request and waits for the answer, whatever its status. What the network does is no
  /// error but an HttpResponse without a status.
  /// @error kCancelled; kIo the answer is longer than allowed; as RequestBody::read
  virtual Result<HttpResponse> exchange(const HttpRequest& request) = 0;
};

}  // namespace shardkit::hub
