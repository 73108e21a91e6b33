// Uploads in a build without libcurl's and OpenSSL's headers.
#include "shardkit/hub/digest.h"
#include "shardkit/hub/http_connection.h"

namespace shardkit::hub {
namespace {

Error unsupported() {
  return Error(ErrorCode::kUnsupported,
               "this build cannot upload: install libcurl4-openssl-dev and libssl-dev, and build "
               "shardkit again");
}

}  // namespace

struct Digest::State {};

Digest::Digest(std::unique_ptr<State> state) : state_(std::move(state)) {}
Digest::Digest(Digest&& other) noexcept = default;
Digest::~Digest() = default;

Result<Digest> Digest::make(Kind) { return unsupported(); }
void Digest::add(std::span<const std::byte>) {}
Result<std::string> Digest::finish() { return unsupported(); }

Result<std::unique_ptr<HttpConnection>> HttpConnection::make(const Environment&,
                                                             std::function<bool()>) {
  return unsupported();
}

}  // namespace shardkit::hub
