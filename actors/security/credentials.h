#pragma once

#include <string>

#include "actors/security/openssl.h"

// Who may speak beyond loopback in a run, and as what: each process holds a certificate of the
// run's authority. There are no names to check in it: identity is the authority, the role and the
// token.

namespace troupe::actors {

/// What a certificate is for, as its extended key usage says: OpenSSL takes a host's for no
/// server's, and a command's for neither a server's nor a host's.
enum class Role {
  director,  ///< serverAuth
  host,      ///< clientAuth
  command,   ///< kCommandUsage: status, scale and the like
};
/// The key usage of commands: an object identifier of this program's own.
inline constexpr const char* kCommandUsage = "2.25.226713184072514236219301750953014627143";
/// The extended key usage of a role, as OpenSSL names it.
const char* usage_of(Role role);

/// What a process shows to others of the run, and knows them by. The texts are PEM.
struct Credentials {
  std::string authority;    ///< certificate of the run's authority
  std::string certificate;  ///< its own, signed by the authority
  std::string key;          ///< of its certificate
  std::string token;        ///< of the run

  bool operator==(const Credentials&) const = default;
};
/// A text that is given over a pipe, or in a file that nobody else may read.
std::string to_text(const Credentials& credentials);
/// Throws Error{data} for a text that to_text did not make, or whose parts do not belong together.
Credentials parse_credentials(const std::string& text);
/// The text of a file with a secret. Throws Error{data} naming it if it cannot be read, or if
/// others than its owner may read it, too.
std::string read_private_file(const std::string& path);
/// The credentials in such a file. Throws Error{data} naming it.
Credentials read_credentials(const std::string& path);

/// Signs the certificates of a run. Its key is in the memory of this process alone, but follows
/// from the secret: processes that share one make certificates that the others trust, and whoever
/// knows it can pose as any of them.
class Authority {
 public:
  /// An authority that nobody else can have.
  Authority();
  /// Takes a tenth of a second and 32 MiB, so that a short secret is not found by trying many.
  explicit Authority(const std::string& secret);
  Authority(const Authority&) = delete;
  ~Authority();

  /// `name` tells people whose certificate it is. Valid from yesterday on, because the clocks of
  /// hosts differ, for ten years.
  Credentials issue(Role role, const std::string& name) const;
  /// What it is made from: whoever has it can make the same authority.
  const std::string& secret() const { return secret_; }

 private:
  const std::string secret_;
  OwnedKey key_;
  OwnedCertificate certificate_;
  std::string token_;
};

}  // namespace troupe::actors
