// HttpConnection over libcurl's easy interface, one handle each.
#include "shardkit/hub/http_connection.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "shardkit/base/loaded_library_internal.h"
#include "shardkit/base/sigpipe_blocked_internal.h"
#include "shardkit/base/version.h"

namespace shardkit::hub {
namespace {

constexpr std::size_t kMostHeaderBytes = 256u << 10;
constexpr long kUploadBufferBytes = 512L << 10;
constexpr long kConnectSeconds = 30;

struct Curl {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_setopt) setopt = nullptr;
  decltype(&curl_easy_perform) perform = nullptr;
  decltype(&curl_easy_getinfo) getinfo = nullptr;
  decltype(&curl_easy_reset) reset = nullptr;
  decltype(&curl_easy_cleanup) cleanup = nullptr;
  decltype(&curl_easy_strerror) strerror = nullptr;
  decltype(&curl_slist_append) append = nullptr;
  decltype(&curl_slist_free_all) free_all = nullptr;
};

Result<Curl> load_curl() {
  const auto library = LoadedLibrary::open({"libcurl.so.4", "libcurl-gnutls.so.4"});
  if (!library.ok())
    return Error(ErrorCode::kUnsupported,
                 fmt::format("uploads need libcurl.so.4, which is not on this machine "
                             "(Debian: libcurl4): {}",
                             library.error().what()));
  Curl curl;
  SHARDKIT_TRY(library->find("curl_global_init", curl.global_init));
  SHARDKIT_TRY(library->find("curl_easy_init", curl.easy_init));
  SHARDKIT_TRY(library->find("curl_easy_setopt", curl.setopt));
  SHARDKIT_TRY(library->find("curl_easy_perform", curl.perform));
  SHARDKIT_TRY(library->find("curl_easy_getinfo", curl.getinfo));
  SHARDKIT_TRY(library->find("curl_easy_reset", curl.reset));
  SHARDKIT_TRY(library->find("curl_easy_cleanup", curl.cleanup));
  SHARDKIT_TRY(library->find("curl_easy_strerror", curl.strerror));
  SHARDKIT_TRY(library->find("curl_slist_append", curl.append));
  SHARDKIT_TRY(library->find("curl_slist_free_all", curl.free_all));
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return Error(ErrorCode::kUnsupported, "libcurl.so.4 does not start");
  return curl;
}

const Result<Curl>& loaded_curl() {
  static const Result<Curl> curl = load_curl();
  return curl;
}

/// What the callbacks of one request work on.
struct Exchange {
  const HttpRequest& request;
  const std::function<bool()>& is_cancelled;
  HttpResponse response;
  std::uint64_t read_to = 0;
  std::uint64_t told = 0;
  std::size_t header_bytes = 0;
  std::optional<Error> error;
};

std::size_t on_read(char* buffer, std::size_t size, std::size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  RequestBody& body = *exchange.request.body;
  const auto bytes = static_cast<std::size_t>(
      std::min<std::uint64_t>(size * count, body.size() - exchange.read_to));
  if (bytes == 0) return 0;
  auto status = body.read(exchange.read_to, std::as_writable_bytes(std::span(buffer, bytes)));
  if (!status.ok()) {
    exchange.error = std::move(status).error();
    return CURL_READFUNC_ABORT;
  }
  exchange.read_to += bytes;
  return bytes;
}

/// Called where a kept connection turned out to be dead and the body starts again.
int on_seek(void* user, curl_off_t offset, int origin) {
  auto& exchange = *static_cast<Exchange*>(user);
  if (origin != SEEK_SET || offset < 0) return CURL_SEEKFUNC_CANTSEEK;
  exchange.read_to = static_cast<std::uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::string_view line(data, size * count);
  exchange.header_bytes += line.size();
  if (exchange.header_bytes > kMostHeaderBytes) {
    exchange.error = Error(ErrorCode::kIo, "the server's answer has too many headers")
                         .expected(fmt::format("at most {} bytes", kMostHeaderBytes));
    return 0;
  }
  if (line.starts_with("HTTP/")) exchange.response.headers.clear();  // after a 100 Continue
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return line.size();
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const std::size_t begin = line.find_first_not_of(" \t\r\n", colon + 1);
  const std::size_t end = line.find_last_not_of(" \t\r\n");
  exchange.response.headers.emplace_back(
      std::move(name),
      begin == std::string_view::npos ? "" : std::string(line.substr(begin, end + 1 - begin)));
  return line.size();
}

std::size_t on_answer(char* data, std::size_t size, std::size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::size_t bytes = size * count;
  if (exchange.response.body.size() + bytes > exchange.request.most_answer_bytes) {
    exchange.error =
        Error(ErrorCode::kIo, "the server's answer is longer than it may be")
            .expected(fmt::format("at most {} bytes", exchange.request.most_answer_bytes));
    return 0;
  }
  exchange.response.body.append(data, bytes);
  return bytes;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t sent) {
  auto& exchange = *static_cast<Exchange*>(user);
  if (exchange.is_cancelled()) return 1;
  const auto bytes = static_cast<std::uint64_t>(std::max<curl_off_t>(sent, 0));
  if (exchange.request.on_sent && bytes != exchange.told) {
    exchange.told = bytes;
    exchange.request.on_sent(bytes);
  }
  return 0;
}

bool is_final_failure(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
         code == CURLE_SSL_ISSUER_ERROR;
}

class CurlConnection final : public HttpConnection {
 public:
  CurlConnection(const Curl& curl, CURL* handle, std::string certificates,
                 std::function<bool()> is_cancelled)
      : curl_(curl),
        handle_(handle),
        certificates_(std::move(certificates)),
        is_cancelled_(std::move(is_cancelled)) {}
  ~CurlConnection() override {
    const SigpipeBlocked blocked;  // closing tells the other end
    curl_.cleanup(handle_);
  }
  CurlConnection(const CurlConnection&) = delete;
  CurlConnection& operator=(const CurlConnection&) = delete;

  Result<HttpResponse> exchange(const HttpRequest& request) override {
    Exchange exchange{
        .request = request, .is_cancelled = is_cancelled_, .response = {}, .error = {}};
    const SigpipeBlocked blocked;
    curl_slist* headers = nullptr;
    // An empty "Expect:" keeps libcurl from waiting a second for leave to send.
    headers = append(headers, "Expect:");
    for (const std::string& line : request.headers) headers = append(headers, line);
    std::array<char, CURL_ERROR_SIZE> message{};
    prepare(exchange, headers, message.data());
    const CURLcode code = curl_.perform(handle_);
    long status = 0;
    curl_.getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
    curl_.reset(handle_);  // keeps the connections
    curl_.free_all(headers);

    if (exchange.error) return *std::move(exchange.error);
    if (exchange.is_cancelled() && code != CURLE_OK)
      return Error(ErrorCode::kCancelled, "the upload was stopped");
    exchange.response.status = static_cast<int>(status);
    // A server that refuses a body may answer and close before it has read all of it.
    const bool answered = code == CURLE_OK || (code == CURLE_SEND_ERROR && status >= 400);
    if (!answered) {
      exchange.response.status = 0;
      exchange.response.failure = message[0] ? message.data() : curl_.strerror(code);
      exchange.response.is_final = is_final_failure(code);
    }
    return std::move(exchange.response);
  }

 private:
  curl_slist* append(curl_slist* list, const std::string& line) const {
    curl_slist* longer = curl_.append(list, line.c_str());
    return longer ? longer : list;
  }

  void prepare(Exchange& exchange, curl_slist* headers, char* message) const {
    const HttpRequest& request = exchange.request;
    const auto set = [this](CURLoption option, auto value) {
      curl_.setopt(handle_, option, value);
    };
    const std::string url = request.url.text();
    const std::string agent = fmt::format("shardkit/{}", version());
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    set(CURLOPT_HTTPHEADER, headers);
    set(CURLOPT_USERAGENT, agent.c_str());
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_SSL_VERIFYPEER, 1L);
    set(CURLOPT_SSL_VERIFYHOST, 2L);
    if (!certificates_.empty()) set(CURLOPT_CAINFO, certificates_.c_str());
    set(CURLOPT_FRESH_CONNECT, request.on_new_connection ? 1L : 0L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_ERRORBUFFER, message);
    set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.silence_seconds));
    set(CURLOPT_HEADERFUNCTION, on_header);
    set(CURLOPT_HEADERDATA, &exchange);
    set(CURLOPT_WRITEFUNCTION, on_answer);
    set(CURLOPT_WRITEDATA, &exchange);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, on_progress);
    set(CURLOPT_XFERINFODATA, &exchange);
    if (request.body) {
      set(CURLOPT_UPLOAD, 1L);
      set(CURLOPT_UPLOAD_BUFFERSIZE, kUploadBufferBytes);
      set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body->size()));
      set(CURLOPT_READFUNCTION, on_read);
      set(CURLOPT_READDATA, &exchange);
      set(CURLOPT_SEEKFUNCTION, on_seek);
      set(CURLOPT_SEEKDATA, &exchange);
    } else if (request.method == "HEAD") {
      set(CURLOPT_NOBODY, 1L);
    }
  }

  const Curl& curl_;
  CURL* handle_;
  std::string certificates_;
  std::function<bool()> is_cancelled_;
};

}  // namespace

Result<std::unique_ptr<HttpConnection>> HttpConnection::make(const Environment& environment,
                                                             std::function<bool()> is_cancelled) {
  const auto& curl = loaded_curl();
  if (!curl.ok()) return curl.error();
  CURL* handle = curl->easy_init();
  if (!handle) return Error(ErrorCode::kIo, "libcurl cannot make a connection's handle");
  return std::make_unique<CurlConnection>(*curl, handle, environment("SSL_CERT_FILE").value_or(""),
                                          std::move(is_cancelled));
}

}  // namespace shardkit::hub
