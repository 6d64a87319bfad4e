#include "actors/security/openssl_library.h"

#include <dlfcn.h>

#include <array>
#include <mutex>
#include <string>

#include "tensor/errors/error.h"

// Each function of OpenSSL that this program calls is here a jump to where the opened library has
// it, under its own name, so that callers are as OpenSSL's headers have them. The linker names a
// function that is missing in this list.

// clang-format off
#define TROUPE_OPENSSL_FUNCTIONS(X) \
  X(ASN1_OBJECT_free) X(BIO_ctrl) X(BIO_free) X(BIO_new) X(BIO_new_mem_buf) X(BIO_s_mem) \
  X(BN_bin2bn) X(BN_free) X(BN_to_ASN1_INTEGER) X(ERR_clear_error) X(ERR_peek_last_error) \
  X(ERR_reason_error_string) X(EVP_PBE_scrypt) X(EVP_PKEY_Q_keygen) X(EVP_PKEY_free) \
  X(EVP_PKEY_new_raw_private_key) X(EXTENDED_KEY_USAGE_free) X(OBJ_cmp) X(OBJ_txt2obj) \
  X(OPENSSL_cleanse) X(OPENSSL_sk_num) X(OPENSSL_sk_value) X(PEM_read_bio_PrivateKey) \
  X(PEM_read_bio_X509) X(PEM_write_bio_PrivateKey) X(PEM_write_bio_X509) X(RAND_bytes) \
  X(SSL_CTX_ctrl) X(SSL_CTX_free) X(SSL_CTX_get_cert_store) X(SSL_CTX_get_ex_data) \
  X(SSL_CTX_new) X(SSL_CTX_set_ex_data) X(SSL_CTX_set_num_tickets) X(SSL_CTX_set_purpose) \
  X(SSL_CTX_set_verify) X(SSL_CTX_use_PrivateKey) X(SSL_CTX_use_certificate) \
  X(SSL_do_handshake) X(SSL_free) X(SSL_get_SSL_CTX) X(SSL_get_error) \
  X(SSL_get_ex_data_X509_STORE_CTX_idx) X(SSL_get_verify_result) X(SSL_new) X(SSL_pending) \
  X(SSL_read_ex) X(SSL_set_accept_state) X(SSL_set_connect_state) X(SSL_set_fd) X(SSL_want) \
  X(SSL_write_ex) X(TLS_method) X(X509V3_EXT_conf_nid) X(X509V3_set_ctx) \
  X(X509_EXTENSION_free) X(X509_NAME_add_entry_by_txt) X(X509_STORE_CTX_get_current_cert) \
  X(X509_STORE_CTX_get_error_depth) X(X509_STORE_CTX_get_ex_data) X(X509_STORE_CTX_set_error) \
  X(X509_STORE_add_cert) X(X509_add_ext) X(X509_check_private_key) X(X509_free) \
  X(X509_get0_pubkey) X(X509_get_ext_d2i) X(X509_get_serialNumber) X(X509_get_subject_name) \
  X(X509_getm_notAfter) X(X509_getm_notBefore) X(X509_gmtime_adj) X(X509_new) \
  X(X509_set_issuer_name) X(X509_set_pubkey) X(X509_set_version) X(X509_sign) X(X509_verify) \
  X(X509_verify_cert_error_string)
// clang-format on

#define TROUPE_DECLARE(name) \
  __attribute__((visibility("hidden"))) void* troupe_openssl_##name = nullptr;
extern "C" {
TROUPE_OPENSSL_FUNCTIONS(TROUPE_DECLARE)
}
#undef TROUPE_DECLARE

#if defined(__x86_64__)
#define TROUPE_JUMP(name) "jmp *troupe_openssl_" #name "(%rip)\n"
#elif defined(__aarch64__)
#define TROUPE_JUMP(name) \
  "adrp x16, troupe_openssl_" #name "\nldr x16, [x16, :lo12:troupe_openssl_" #name "]\nbr x16\n"
#endif
#define TROUPE_STUB(name)                                                         \
  asm(".pushsection .text\n.hidden " #name "\n.globl " #name "\n.type " #name     \
      ", @function\n" #name ":\n" TROUPE_JUMP(name) ".size " #name ", . - " #name \
                                                    "\n.popsection\n");
TROUPE_OPENSSL_FUNCTIONS(TROUPE_STUB)
#undef TROUPE_STUB

namespace troupe::actors {
namespace {

struct Function {
  const char* name;
  void** place;
};
#define TROUPE_ROW(name) Function{#name, &troupe_openssl_##name},
const std::array kFunctions{TROUPE_OPENSSL_FUNCTIONS(TROUPE_ROW)};
#undef TROUPE_ROW

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::unavailable,
              "hosts of a run talk in TLS, for which this machine needs OpenSSL 3: " + what +
                  "; install it, as by apt-get install libssl3");
}

void* open(const char* library) {
  void* const opened = dlopen(library, RTLD_NOW);
  if (!opened) refuse(dlerror());
  return opened;
}

}  // namespace

void open_openssl() {
  static std::once_flag once;
  std::call_once(once, [] {
    void* const crypto = open("libcrypto.so.3");
    void* const ssl = open("libssl.so.3");
    for (const Function& function : kFunctions) {
      void* found = dlsym(ssl, function.name);
      if (!found) found = dlsym(crypto, function.name);
      if (!found) refuse(std::string(function.name) + " is not in it");
      *function.place = found;
    }
  });
}

}  // namespace troupe::actors
