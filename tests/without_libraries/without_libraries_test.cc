// What functions answer in a build without the libraries that they need.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "shardkit/collective/gloo/gloo_group.h"
#include "shardkit/hub/digest.h"
#include "shardkit/hub/http_connection.h"
#include "shardkit/hub/upload_folder.h"
#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

using testing::Fails;

TEST(WithoutLibraries, ThereAreNoGlooGroups) {
  constexpr const char* kText =
      "this build has no Gloo: install libgloo-dev and build shardkit again";
  EXPECT_FALSE(gloo_is_available());
  EXPECT_THAT(make_gloo_group({"test", 0, 1, "127.0.0.1", 29500}),
              Fails(ErrorCode::kUnsupported, kText));
  EXPECT_THAT(make_gloo_group("folder", 0, 1), Fails(ErrorCode::kUnsupported, kText));
}

TEST(WithoutLibraries, ThereAreNoUploads) {
  constexpr const char* kText =
      "this build cannot upload: install libcurl4-openssl-dev and libssl-dev, and build shardkit "
      "again";
  const auto environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "HF_TOKEN") return "hf_secret";
    return std::nullopt;
  };
  EXPECT_THAT(hub::Digest::make(hub::Digest::Kind::kSha256), Fails(ErrorCode::kUnsupported, kText));
  EXPECT_THAT(hub::HttpConnection::make(environment, [] { return false; }),
              Fails(ErrorCode::kUnsupported, kText));
  hub::UploadOptions options;
  options.repo = "org/model";
  EXPECT_THAT(hub::check_upload(posix_file_system(), options, environment),
              Fails(ErrorCode::kUnsupported, kText));
}

}  // namespace
}  // namespace shardkit
