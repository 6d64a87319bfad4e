#include "launch/hosts/ssh_remedy.h"

#include <boost/test/unit_test.hpp>

namespace troupe::launch {

BOOST_AUTO_TEST_SUITE(ssh_remedy_test)

BOOST_AUTO_TEST_CASE(what_ssh_says_has_a_remedy_and_what_an_agent_says_has_not) {
  const auto has = [](const std::string& words, const char* help) {
    return ssh_remedy("h1", words).find(help) != std::string::npos;
  };
  BOOST_TEST(has("ssh ended with exit code 255: Host key verification failed.", "ssh-keyscan h1"));
  BOOST_TEST(has("ssh ended with exit code 255: root@h1: Permission denied (publickey).",
                 "ssh-copy-id h1"));
  BOOST_TEST(has("ssh ended with exit code 255: connect to host h1 port 22: Connection timed out",
                 "firewall"));
  BOOST_TEST(
      has("ssh ended with exit code 126: bash: /x/troupe: Permission denied", "cluster.program"));
  BOOST_TEST(ssh_remedy("h1", "ssh ended with exit code 69: 10.0.0.1:80: Connection timed out") ==
             "");
  BOOST_TEST(ssh_remedy("h1", "ssh was ended by SIGKILL") == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::launch
