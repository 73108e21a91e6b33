// gmock matchers for Result and Status: EXPECT_THAT(f(), IsOk()), EXPECT_THAT(f(), Fails(code, text)).
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "shardkit/base/result.h"

namespace shardkit::testing {

MATCHER(IsOk, "is ok") {
  if (arg.ok()) return true;
  *result_listener << "which is the error " << to_string(arg.error().code()) << ": "
                   << arg.error().message();
  return false;
}

/// Holds an error of this code whose whole message contains `text`.
MATCHER_P2(Fails, code, text, "fails with the code and a message that contains the text") {
  if (arg.ok()) {
    *result_listener << "which is ok";
    return false;
  }
  *result_listener << "which is the error " << to_string(arg.error().code()) << ": "
                   << arg.error().message();
  return arg.error().code() == code &&
         arg.error().message().find(std::string(text)) != std::string::npos;
}

}  // namespace shardkit::testing
