// Access: which Hub, and the token to use there.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "shardkit/base/environment.h"
#include "shardkit/base/result.h"
#include "shardkit/hub/url.h"
#include "shardkit/io/file_system.h"

namespace shardkit::hub {

/// A secret that goes into one header of requests to the endpoint, and nowhere else.
class Token {
 public:
  /// @param source  where it is from, for messages: "HF_TOKEN" or "the file 'PATH'"
  /// @error kInvalidArgument it is empty, or has characters that no header may have
  static Result<Token> make(std::string_view secret, std::string source);

  const std::string& source() const { return source_; }
  /// "Authorization: Bearer ...".
  std::string header() const { return "Authorization: Bearer " + secret_; }
  /// A server's text with the token, should the server repeat it, replaced. Linear in its length.
  std::string redact(std::string_view text) const;
  /// The same in all texts of an error.
  Error redact(const Error& error) const;

 private:
  Token(std::string secret, std::string source)
      : secret_(std::move(secret)), source_(std::move(source)) {}

  std::string secret_;
  std::string source_;
};

struct Access {
  Url endpoint;  ///< target is a path without a slash at its end
  Token token;
};

/// Reads both as huggingface_hub 2.4 does (constants.py, utils/_auth.py).
///
/// Endpoint: HF_ENDPOINT, else https://huggingface.co. Token: HF_TOKEN, else the file
/// HF_TOKEN_PATH, else HF_HOME/token, else XDG_CACHE_HOME/huggingface/token, else
/// ~/.cache/huggingface/token. White space around it is dropped.
///
/// @error kInvalidArgument HF_ENDPOINT is no address, there is no token, or it is none; never tells
/// it
Result<Access> read_access(FileSystem& fs, const Environment& environment);

}  // namespace shardkit::hub
