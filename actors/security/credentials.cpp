#include "actors/security/credentials.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "actors/security/openssl_library.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

constexpr std::string_view kFirstLine = "troupe credentials 1\n";
constexpr std::size_t kMostBytes = 64 * 1024;
constexpr const char* kAuthorityName = "the authority of a Troupe run";
constexpr long kDay_s = 24 * 60 * 60;
constexpr long kValidDays = 3650;
constexpr std::size_t kSeedBytes = 32, kTokenBytes = 16;

[[noreturn]] void no_credentials(const std::string& of, const std::string& why) {
  throw Error(ErrorKind::data, of + " holds no credentials of a run: " + why);
}

template <typename Write>
std::string pem_of(Write write) {
  const OwnedBio bio(BIO_new(BIO_s_mem()));
  openssl_check(bio && write(bio.get()) == 1, "write PEM");
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

std::string pem_of(X509* certificate) {
  return pem_of([&](BIO* out) { return PEM_write_bio_X509(out, certificate); });
}

std::string pem_of(EVP_PKEY* key) {
  return pem_of([&](BIO* out) {
    return PEM_write_bio_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

OwnedKey new_key() {
  OwnedKey key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  openssl_check(key != nullptr, "make a key");
  return key;
}

void add_extension(X509* certificate, X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const OwnedExtension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value));
  openssl_check(extension && X509_add_ext(certificate, extension.get(), -1) == 1,
                "add to a certificate");
}

/// A certificate without extensions and signature; `issuer` null: it will sign itself.
OwnedCertificate new_certificate(const std::string& name, EVP_PKEY* key, X509* issuer) {
  OwnedCertificate made(X509_new());
  X509* const x = made.get();
  std::array<unsigned char, 16> serial{};
  openssl_check(x && RAND_bytes(serial.data(), serial.size()) == 1, "draw a number");
  serial[0] = (serial[0] & 0x3f) | 0x40;  // positive, and of one length
  const std::unique_ptr<BIGNUM, FreedBy<BN_free>> number(
      BN_bin2bn(serial.data(), serial.size(), nullptr));
  X509_NAME* const subject = X509_get_subject_name(x);
  const bool done = number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(x)) &&
                    X509_set_version(x, X509_VERSION_3) == 1 &&
                    X509_gmtime_adj(X509_getm_notBefore(x), -kDay_s) &&
                    X509_gmtime_adj(X509_getm_notAfter(x), kValidDays * kDay_s) &&
                    X509_set_pubkey(x, key) == 1 &&
                    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                               reinterpret_cast<const unsigned char*>(name.data()),
                                               static_cast<int>(name.size()), -1, 0) == 1 &&
                    X509_set_issuer_name(x, issuer ? X509_get_subject_name(issuer) : subject) == 1;
  openssl_check(done, "make a certificate");
  return made;
}

void sign(X509* certificate, EVP_PKEY* key) {
  openssl_check(X509_sign(certificate, key, nullptr) > 0, "sign a certificate");
}

/// Digits, so that it can stand in a text.
std::string hexadecimal(const unsigned char* bytes, std::size_t count) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string digits;
  for (std::size_t i = 0; i < count; ++i)
    (digits += kDigits[bytes[i] >> 4]) += kDigits[bytes[i] & 15];
  return digits;
}

std::string random_secret() {
  open_openssl();
  std::array<unsigned char, kSeedBytes> drawn{};
  openssl_check(RAND_bytes(drawn.data(), kSeedBytes) == 1, "draw a secret");
  return hexadecimal(drawn.data(), drawn.size());
}

/// The part of a text that begins with `begin` and ends with `end`, which is taken off its front;
/// empty if the text does not begin so.
std::string take(std::string_view& text, std::string_view begin, std::string_view end) {
  const std::size_t at = text.starts_with(begin) ? text.find(end) : text.npos;
  if (at == text.npos) return {};
  const std::string part(text.substr(0, at + end.size()));
  text.remove_prefix(part.size());
  return part;
}

/// Why the parts do not belong together; empty if they do.
std::string fault_of(const Credentials& credentials) {
  open_openssl();
  const auto authority = read_certificate(credentials.authority);
  const auto certificate = read_certificate(credentials.certificate);
  const auto key = read_key(credentials.key);
  std::string fault;
  if (!authority || !certificate || !key)
    fault = "a certificate or the key cannot be read";
  else if (X509_check_private_key(certificate.get(), key.get()) != 1)
    fault = "the key is not the certificate's";
  else if (X509_verify(certificate.get(), X509_get0_pubkey(authority.get())) != 1)
    fault = "the certificate is not of the authority";
  ERR_clear_error();
  return fault;
}

Credentials parse_credentials_of(const std::string& text, const std::string& of) {
  constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----\n",
                             kEnd = "-----END CERTIFICATE-----\n";
  std::string_view rest = text;
  const bool known = rest.starts_with(kFirstLine);
  if (known) rest.remove_prefix(kFirstLine.size());
  std::string token = take(rest, "", "\n");
  if (!token.empty()) token.pop_back();
  Credentials read{
      .authority = take(rest, kBegin, kEnd),
      .certificate = take(rest, kBegin, kEnd),
      .key = take(rest, "-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----\n"),
      .token = std::move(token)};
  if (!known || read.token.empty() || read.key.empty() || !rest.empty())
    no_credentials(of, "it is not in their form");
  if (const std::string fault = fault_of(read); !fault.empty()) no_credentials(of, fault);
  return read;
}

}  // namespace

const char* usage_of(Role role) {
  switch (role) {
    case Role::director:
      return "serverAuth";
    case Role::host:
      return "clientAuth";
    case Role::command:
      return kCommandUsage;
  }
  return "";
}

std::string to_text(const Credentials& credentials) {
  return std::string(kFirstLine) + credentials.token + "\n" + credentials.authority +
         credentials.certificate + credentials.key;
}

Credentials parse_credentials(const std::string& text) {
  return parse_credentials_of(text, "the text");
}

std::string read_private_file(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::data, path + ": " + why);
  };
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) refuse(std::strerror(errno));
  struct stat about {};
  std::string text(kMostBytes, '\0');
  const bool is_file = fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
  const ssize_t size = is_file ? read(fd, text.data(), text.size()) : -1;
  close(fd);
  if (size < 0) refuse("it is not a file that can be read");
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    refuse("others may read it, and may know the secret in it by now; chmod 600 makes it private");
  text.resize(static_cast<std::size_t>(size));
  return text;
}

Credentials read_credentials(const std::string& path) {
  return parse_credentials_of(read_private_file(path), path);
}

Authority::Authority() : Authority(random_secret()) {}

Authority::Authority(const std::string& secret) : secret_(secret) {
  open_openssl();
  constexpr std::string_view kSalt = "troupe authority 1";
  constexpr std::uint64_t kCost = 1 << 15, kBlocks = 8, kParallel = 1, kMostMemory = 64 << 20;
  std::array<unsigned char, kSeedBytes + kTokenBytes> drawn{};
  openssl_check(
      EVP_PBE_scrypt(secret.data(), secret.size(),
                     reinterpret_cast<const unsigned char*>(kSalt.data()), kSalt.size(), kCost,
                     kBlocks, kParallel, kMostMemory, drawn.data(), drawn.size()) == 1,
      "derive a key");
  key_.reset(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, drawn.data(), kSeedBytes));
  openssl_check(key_ != nullptr, "make a key");
  token_ = hexadecimal(drawn.data() + kSeedBytes, kTokenBytes);
  OPENSSL_cleanse(drawn.data(), drawn.size());
  certificate_ = new_certificate(kAuthorityName, key_.get(), nullptr);
  X509* const x = certificate_.get();
  add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  add_extension(x, x, NID_key_usage, "critical,keyCertSign");
  add_extension(x, x, NID_subject_key_identifier, "hash");
  sign(x, key_.get());
}

Authority::~Authority() = default;

Credentials Authority::issue(Role role, const std::string& name) const {
  const OwnedKey key = new_key();
  const OwnedCertificate made = new_certificate(name, key.get(), certificate_.get());
  X509* const x = made.get();
  add_extension(x, certificate_.get(), NID_basic_constraints, "critical,CA:FALSE");
  add_extension(x, certificate_.get(), NID_key_usage, "critical,digitalSignature");
  add_extension(x, certificate_.get(), NID_ext_key_usage, usage_of(role));
  add_extension(x, certificate_.get(), NID_authority_key_identifier, "keyid:always");
  sign(x, key_.get());
  return {.authority = pem_of(certificate_.get()),
          .certificate = pem_of(x),
          .key = pem_of(key.get()),
          .token = token_};
}

}  // namespace troupe::actors
