#include <gtest/gtest.h>

#include "shardkit/base/loaded_library_internal.h"
#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;

TEST(LoadedLibrary, TheFirstThatIsThereIsOpened) {
  const auto library = LoadedLibrary::open({"libnone_such.so.9", "libm.so.6"});
  ASSERT_THAT(library, IsOk());
  double (*root)(double) = nullptr;
  ASSERT_THAT(library->find("sqrt", root), IsOk());
  EXPECT_EQ(root(9.0), 3.0);
  EXPECT_THAT(library->find("none_such", root),
              Fails(ErrorCode::kUnsupported, "this libm.so.6 has no none_such"));
}

TEST(LoadedLibrary, OneThatTheProcessHasGoesBeforeOneThatItHasNot) {
  // The first is a part of glibc that nothing loads.
  const auto library = LoadedLibrary::open({"libBrokenLocale.so.1", "libc.so.6"});
  ASSERT_THAT(library, IsOk());
  int (*puts)(const char*) = nullptr;
  EXPECT_THAT(library->find("none_such", puts), Fails(ErrorCode::kUnsupported, "this libc.so.6"));
}

TEST(LoadedLibrary, WithNoneTheSystemSaysWhyOfTheFirst) {
  EXPECT_THAT(LoadedLibrary::open({"/nowhere/libx.so", "/nowhere/liby.so"}),
              Fails(ErrorCode::kUnsupported, "/nowhere/libx.so"));
  EXPECT_THAT(LoadedLibrary::open({}), Fails(ErrorCode::kUnsupported, "no library is named"));
}

}  // namespace
}  // namespace shardkit
