#pragma once

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

// OpenSSL's objects as owners, and its errors as Error.

namespace troupe::actors {

template <auto Free>
struct FreedBy {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using OwnedBio = std::unique_ptr<BIO, FreedBy<BIO_free>>;
using OwnedCertificate = std::unique_ptr<X509, FreedBy<X509_free>>;
using OwnedContext = std::unique_ptr<SSL_CTX, FreedBy<SSL_CTX_free>>;
using OwnedExtension = std::unique_ptr<X509_EXTENSION, FreedBy<X509_EXTENSION_free>>;
using OwnedKey = std::unique_ptr<EVP_PKEY, FreedBy<EVP_PKEY_free>>;
using OwnedSession = std::unique_ptr<SSL, FreedBy<SSL_free>>;

/// What OpenSSL says of the newest failure in this thread, whose errors are forgotten then.
std::string openssl_words();
/// Throws Error{unavailable}: what could not be done, and what OpenSSL says.
[[noreturn]] void openssl_error(const std::string& what);
inline void openssl_check(bool done, const char* what) {
  if (!done) openssl_error(what);
}

/// The first certificate, or private key, in a PEM text; null if it has none. Private keys with a
/// passphrase are none.
OwnedCertificate read_certificate(const std::string& pem);
OwnedKey read_key(const std::string& pem);

}  // namespace troupe::actors
