#include "actors/security/credentials.h"

#include <openssl/x509.h>
#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(credentials_test)

namespace {

using actors::Authority;
using actors::Credentials;
using actors::Role;

bool is_signed_by(const Credentials& one, const Credentials& other) {
  const auto certificate = actors::read_certificate(one.certificate);
  const auto authority = actors::read_certificate(other.authority);
  return X509_verify(certificate.get(), X509_get0_pubkey(authority.get())) == 1;
}

void refused(const std::string& text) {
  expect_error(ErrorKind::data, {"no credentials of a run"},
               [&] { actors::parse_credentials(text); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(survive_their_text) {
  const Credentials host = Authority().issue(Role::host, "node-1");
  BOOST_TEST((actors::parse_credentials(to_text(host)) == host));
}

BOOST_AUTO_TEST_CASE(another_text_is_refused) {
  const Authority authority;
  const Credentials host = authority.issue(Role::host, "h");
  const std::string text = to_text(host);
  for (std::size_t size = 0; size < text.size(); size += 1 + size / 20)
    refused(text.substr(0, size));
  refused(text + "\n");
  refused("x" + text);
  refused(text + text);
  Credentials mixed = host;
  mixed.key = authority.issue(Role::host, "h").key;
  refused(to_text(mixed));
  mixed = host;
  mixed.authority = Authority().issue(Role::host, "h").authority;
  refused(to_text(mixed));
  mixed = host;
  mixed.token.clear();
  refused(to_text(mixed));
}

BOOST_AUTO_TEST_CASE(a_file_that_others_may_read_is_refused) {
  const TempDir dir;
  const std::string path = (dir.path() / "host").string();
  const Credentials host = Authority().issue(Role::host, "h");
  std::ofstream(path) << to_text(host);
  chmod(path.c_str(), 0640);
  expect_error(ErrorKind::data, {path, "chmod 600"}, [&] { actors::read_credentials(path); });
  chmod(path.c_str(), 0600);
  BOOST_TEST((actors::read_credentials(path) == host));
  expect_error(ErrorKind::data, {path + "x"}, [&] { actors::read_credentials(path + "x"); });
  expect_error(ErrorKind::data, {"/dev/null"}, [&] { actors::read_credentials("/dev/null"); });
}

BOOST_AUTO_TEST_CASE(a_secret_makes_the_same_authority_everywhere) {
  const Credentials one = Authority("a secret").issue(Role::director, "d"),
                    other = Authority("a secret").issue(Role::host, "h"),
                    stranger = Authority("a secreT").issue(Role::host, "h");
  BOOST_TEST(is_signed_by(one, other));
  BOOST_TEST(is_signed_by(other, one));
  BOOST_TEST(!is_signed_by(stranger, one));
  BOOST_TEST(one.token == other.token);
  BOOST_TEST(one.token != stranger.token);
  BOOST_TEST(!is_signed_by(Authority().issue(Role::host, "h"), Authority().issue(Role::host, "h")));
}

BOOST_AUTO_TEST_CASE(holds_on_hosts_whose_clocks_differ) {
  const Credentials host = Authority().issue(Role::host, "h");
  for (const std::string& pem : {host.authority, host.certificate}) {
    const auto certificate = actors::read_certificate(pem);
    for (const time_t off : {-23 * 3600l, 365 * 24 * 3600l}) {
      time_t now = time(nullptr) + off;
      BOOST_TEST(X509_cmp_time(X509_get0_notBefore(certificate.get()), &now) < 0);
      BOOST_TEST(X509_cmp_time(X509_get0_notAfter(certificate.get()), &now) > 0);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
