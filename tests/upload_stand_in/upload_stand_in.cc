// A library with the functions of libcurl and of libcrypto that shardkit looks up when it loads
// them; for tests of what it says where one of them fails.
//
// The variable SHARDKIT_STAND_IN_FAILS names the one that fails. The others succeed and do nothing;
// those that only a request needs are never called.
#include <cstddef>
#include <cstdlib>
#include <string_view>

namespace {

int handle;  // what handles point at

bool fails(std::string_view function) {
  const char* name = std::getenv("SHARDKIT_STAND_IN_FAILS");
  return name != nullptr && name == function;
}

}  // namespace

extern "C" {

int curl_global_init(long) { return fails("curl_global_init") ? 2 : 0; }
void* curl_easy_init() { return fails("curl_easy_init") ? nullptr : &handle; }
void curl_easy_cleanup(void*) {}
void curl_easy_setopt() { std::abort(); }
void curl_easy_perform() { std::abort(); }
void curl_easy_getinfo() { std::abort(); }
void curl_easy_reset() { std::abort(); }
void curl_easy_strerror() { std::abort(); }
void curl_slist_append() { std::abort(); }
void curl_slist_free_all() { std::abort(); }

void* EVP_MD_fetch(void*, const char*, const char*) {
  return fails("EVP_MD_fetch") ? nullptr : &handle;
}
void* EVP_MD_CTX_new() { return &handle; }
void EVP_MD_CTX_free(void*) {}
int EVP_DigestInit_ex2(void*, const void*, const void*) { return 1; }
int EVP_DigestUpdate(void*, const void*, std::size_t) { return 1; }
int EVP_DigestFinal_ex(void*, unsigned char*, unsigned*) {
  return fails("EVP_DigestFinal_ex") ? 0 : 1;
}

}  // extern "C"
