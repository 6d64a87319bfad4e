#include "actors/security/openssl.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <array>

#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

OwnedBio bytes_of(const std::string& text) {
  OwnedBio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  openssl_check(bio != nullptr, "read a text");
  return bio;
}

/// For a key with a passphrase: nobody is asked at a terminal.
int no_passphrase(char*, int, int, void*) {
  return -1;
}

}  // namespace

std::string openssl_words() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "unknown error" : reason;
}

void openssl_error(const std::string& what) {
  throw Error(ErrorKind::unavailable, "OpenSSL cannot " + what + ": " + openssl_words());
}

OwnedCertificate read_certificate(const std::string& pem) {
  OwnedCertificate certificate(
      PEM_read_bio_X509(bytes_of(pem).get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  return certificate;
}

OwnedKey read_key(const std::string& pem) {
  OwnedKey key(PEM_read_bio_PrivateKey(bytes_of(pem).get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  return key;
}

}  // namespace troupe::actors
