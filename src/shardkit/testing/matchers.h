// gmock matchers for Result and Status: EXPECT_THAT(f(), IsOk()), EXPECT_THAT(f(), Fails(code,
// text)).
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "shardkit/base/result.h"

namespace shardkit::testing {

MATCHER(IsOk, "is ok") {
  if (arg.ok()) return true;
  *result_listener << "which is the error " << to_string(arg.error().code()) << ": "
                   << arg.error().message();
  return false;
}

/// Where SHARDKIT_RECORD_ERRORS names a file, an error that a test expects is added to it as a
/// line: code, sentence and whole message, with tabs between. tools/errors_page.py reads them.
inline void record_expected(const Error& error) {
  const char* path = std::getenv("SHARDKIT_RECORD_ERRORS");
  if (path == nullptr) return;
  std::string line(to_string(error.code()));
  for (std::string text : {error.what(), error.message()}) {
    for (char& c : text)
      if (static_cast<unsigned char>(c) < ' ') c = ' ';
    line += '\t' + text;
  }
  std::ofstream(path, std::ios::app) << line + '\n';
}

/// Holds an error of this code whose whole message contains `text`.
MATCHER_P2(Fails, code, text, "fails with the code and a message that contains the text") {
  if (arg.ok()) {
    *result_listener << "which is ok";
    return false;
  }
  *result_listener << "which is the error " << to_string(arg.error().code()) << ": "
                   << arg.error().message();
  if (arg.error().code() != code ||
      arg.error().message().find(std::string(text)) == std::string::npos)
    return false;
  record_expected(arg.error());
  return true;
}

}  // namespace shardkit::testing
