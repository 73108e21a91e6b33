// Digests by OpenSSL's libcrypto, which is loaded when the first is made.
#include "shardkit/hub/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <utility>

#include "shardkit/base/loaded_library_internal.h"

namespace shardkit::hub {
namespace {

struct Crypto {
  decltype(&EVP_MD_CTX_new) context_new = nullptr;
  decltype(&EVP_MD_CTX_free) context_free = nullptr;
  decltype(&EVP_MD_fetch) fetch = nullptr;
  decltype(&EVP_DigestInit_ex2) init = nullptr;
  decltype(&EVP_DigestUpdate) update = nullptr;
  decltype(&EVP_DigestFinal_ex) final = nullptr;
  EVP_MD* sha256 = nullptr;
  EVP_MD* sha1 = nullptr;
};

Result<Crypto> load_crypto() {
  const auto library = LoadedLibrary::open({"libcrypto.so.3"});
  if (!library.ok())
    return Error(ErrorCode::kUnsupported,
                 fmt::format("uploads need libcrypto.so.3, which is not on this machine "
                             "(Debian: libssl3): {}",
                             library.error().what()));
  Crypto crypto;
  SHARDKIT_TRY(library->find("EVP_MD_CTX_new", crypto.context_new));
  SHARDKIT_TRY(library->find("EVP_MD_CTX_free", crypto.context_free));
  SHARDKIT_TRY(library->find("EVP_MD_fetch", crypto.fetch));
  SHARDKIT_TRY(library->find("EVP_DigestInit_ex2", crypto.init));
  SHARDKIT_TRY(library->find("EVP_DigestUpdate", crypto.update));
  SHARDKIT_TRY(library->find("EVP_DigestFinal_ex", crypto.final));
  // Looked up once: each look-up costs more than the digest of a small file.
  crypto.sha256 = crypto.fetch(nullptr, "SHA256", nullptr);
  crypto.sha1 = crypto.fetch(nullptr, "SHA1", nullptr);
  if (!crypto.sha256 || !crypto.sha1)
    return Error(ErrorCode::kUnsupported, "this libcrypto.so.3 has no SHA-256 or no SHA-1");
  return crypto;
}

const Result<Crypto>& loaded_crypto() {
  static const Result<Crypto> crypto = load_crypto();
  return crypto;
}

}  // namespace

struct Digest::State {
  const Crypto* crypto;
  EVP_MD_CTX* context;
  bool ok = true;

  ~State() { crypto->context_free(context); }
};

Digest::Digest(std::unique_ptr<State> state) : state_(std::move(state)) {}
Digest::Digest(Digest&& other) noexcept = default;
Digest::~Digest() = default;

Result<Digest> Digest::make(Kind kind) {
  const auto& crypto = loaded_crypto();
  if (!crypto.ok()) return crypto.error();
  auto state = std::unique_ptr<State>(new State{&*crypto, crypto->context_new()});
  state->ok = state->context &&
              crypto->init(state->context, kind == Kind::kSha256 ? crypto->sha256 : crypto->sha1,
                           nullptr) == 1;
  return Digest(std::move(state));
}

void Digest::add(std::span<const std::byte> bytes) {
  state_->ok =
      state_->ok && state_->crypto->update(state_->context, bytes.data(), bytes.size()) == 1;
}

Result<std::string> Digest::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  state_->ok = state_->ok && state_->crypto->final(state_->context, bytes.data(), &size) == 1;
  if (!state_->ok) return Error(ErrorCode::kInternal, "libcrypto failed to make a digest");
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

}  // namespace shardkit::hub
