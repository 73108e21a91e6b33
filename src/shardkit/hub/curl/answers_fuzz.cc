// Any bytes as what a Hub and its storage answer to an upload: no crash, an end to it, and nothing
// sent to where it may not go.
//
// An input is answers, one after another, with a line "%%" between them: a line with the status
// (0: no answer), lines of headers, an empty line, the body. An upload is started again for as long
// as there are answers, so that it also takes up what it wrote down of earlier ones.
#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "shardkit/hub/http_connection.h"
#include "shardkit/hub/upload_folder.h"

namespace shardkit::hub {
namespace {

constexpr std::string_view kEndpoint = "https://hub.test:8443/mirror";
constexpr std::string_view kSecret = "hf_secret";
/// Of an upload of three files in at most a dozen parts, each request tried twice. Renewals and
/// redirects come on top.
constexpr int kMostRequests = 2000;

void require(bool holds) {
  if (!holds) std::abort();
}

std::string_view take_until(std::string_view& text, std::string_view end) {
  const std::size_t at = text.find(end);
  const std::string_view taken = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + end.size());
  return taken;
}

HttpResponse parse_response(std::string_view text) {
  HttpResponse response;
  const std::string_view status = take_until(text, "\n");
  std::from_chars(status.data(), status.data() + status.size(), response.status);
  if (response.status < 100 || response.status > 599) response.status = 0;
  if (response.status == 0) response.failure = "no answer";
  for (auto line = take_until(text, "\n"); !line.empty(); line = take_until(text, "\n")) {
    const std::string_view name = take_until(line, ": ");
    response.headers.emplace_back(name, line);
  }
  response.body = text;
  return response;
}

/// What is still to be answered, and how often something was asked. One upload at a time, whose
/// requests come one after another.
struct Server {
  std::deque<HttpResponse> answers;
  int requests = 0;
};
Server server;

/// For people: neither long nor for their terminals, and without the token.
void check_shown(const std::string& text) {
  require(text.size() < kLongestUrl + 4096);
  require(text.find(kSecret) == std::string::npos);
  for (const char c : text) require(static_cast<unsigned char>(c) >= ' ' && c != 0x7f);
}

void check_request(const HttpRequest& request) {
  const std::string address = request.url.text();
  const auto parsed = parse_url(address);
  require(parsed.ok() && parsed->text() == address);
  require(request.url.scheme == "https");
  const Url endpoint = *parse_url(kEndpoint);
  for (const std::string& header : request.headers) {
    require(header.find_first_of("\r\n") == std::string::npos);
    if (header.find(kSecret) != std::string::npos) require(request.url.has_origin_of(endpoint));
  }
}

class ScriptedConnection final : public HttpConnection {
 public:
  Result<HttpResponse> exchange(const HttpRequest& request) override {
    require(++server.requests < kMostRequests);
    check_request(request);
    if (request.body) {
      std::string sent(static_cast<std::size_t>(request.body->size()), '\0');
      SHARDKIT_TRY(request.body->read(0, std::as_writable_bytes(std::span(sent))));
      require(sent.find(kSecret) == std::string::npos);
      if (request.on_sent) request.on_sent(sent.size());
    }
    HttpResponse response;
    if (server.answers.empty()) {
      response.failure = "there are no more answers";
      response.is_final = true;
    } else {
      response = std::move(server.answers.front());
      server.answers.pop_front();
    }
    return response;
  }
};

/// The files, and a place for the record of an upload.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "answers_fuzz.XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr);
    path_ = name;
    std::filesystem::create_directory(path_ / "model");
    write("model.bin", "Twenty bytes of them");
    write("config.json", "{}");
    write("empty", "");
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string model() const { return (path_ / "model").string(); }
  std::string cache() const { return (path_ / "cache").string(); }

 private:
  void write(const char* name, std::string_view content) {
    std::ofstream(path_ / "model" / name) << content;
  }

  std::filesystem::path path_;
};

void upload(const Folder& folder) {
  std::atomic<bool> cancel = false;
  UploadOptions options;
  options.repo = "org/model";
  options.branch = "a/branch";
  options.is_private = true;
  options.connections = 1;
  options.retry = {.tries = 2, .tries_unreached = 2, .first_wait = 0, .longest_wait = 0};
  options.cancel = &cancel;
  options.on_wait = [&cancel](const std::string& text) {
    check_shown(text);
    cancel = true;
  };
  const auto report =
      upload_folder(posix_file_system(), folder.model(), options,
                    [&folder](const std::string& name) -> std::optional<std::string> {
                      if (name == "HF_ENDPOINT") return std::string(kEndpoint);
                      if (name == "HF_TOKEN") return std::string(kSecret);
                      if (name == "XDG_CACHE_HOME") return folder.cache();
                      return std::nullopt;
                    });
  if (report.ok()) {
    require(report->page == std::string(kEndpoint) + "/org/model");
    for (const Commit& commit : report->commits) check_shown(commit.oid + commit.url);
    require(report->files_sent + report->files_there + report->ignored.size() == 3);
  } else {
    require(report.error().code() != ErrorCode::kInternal);
    check_shown(report.error().message());
  }
}

}  // namespace

/// Instead of the library's, which the linker leaves out for it.
Result<std::unique_ptr<HttpConnection>> HttpConnection::make(const Environment&,
                                                             std::function<bool()>) {
  return std::make_unique<ScriptedConnection>();
}

}  // namespace shardkit::hub

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardkit::hub;
  static const Folder folder;
  std::filesystem::remove_all(folder.cache());
  server = {};
  std::string_view text(reinterpret_cast<const char*>(data), size);
  while (!text.empty() && server.answers.size() < 100)
    server.answers.push_back(parse_response(take_until(text, "\n%%\n")));
  do {
    upload(folder);
  } while (!server.answers.empty());
  return 0;
}
