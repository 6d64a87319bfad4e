#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "tests/hosts/hosts_runs.h"

// Tests hosts that cannot take part, each for another reason: the launch says which, why and what
// helps before anything is trained, and leaves nothing.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(bad_input_test)

namespace {

namespace fs = std::filesystem;

}  // namespace

BOOST_AUTO_TEST_CASE(a_public_address_is_refused_unless_the_network_is_trusted) {
  const Workplace place;
  Lab lab(2);
  for (const int host : {0, 1}) {
    const std::string address = "203.0.113." + std::to_string(10 + host) + "/24";
    BOOST_REQUIRE(lab.run(host, {"ip", "address", "add", address, "dev", "eth0"}).exit_code == 0);
  }
  const std::string token = place.dir.write("token", "s3cret\n");
  fs::permissions(token, fs::perms::owner_read);
  const std::vector<std::string> where{"--rendezvous", "203.0.113.10:29600", "--token-file", token};
  const auto words = [&](std::vector<std::string> command) {
    command.insert(command.begin(), binary_on_hosts());
    command.insert(command.end(), where.begin(), where.end());
    return command;
  };
  const std::string manifest = place.manifest("run", {{"mesh.pp", "2"}});
  const Finished refused = lab.run(0, words({"launch", manifest, "--wait-for-hosts", "2"}));
  BOOST_TEST(refused.exit_code == 78, refused.err);
  for (const char* word : {"h0", "203.0.113.10", "cluster.trusted_network"})
    BOOST_TEST(refused.err.find(word) != std::string::npos, refused.err);
  HostProgram host(lab, 1, words({"join"}));
  const Finished trusted = lab.run(0, words({"launch", manifest, "--wait-for-hosts", "2", "--set",
                                             "cluster.trusted_network=true"}));
  BOOST_TEST(trusted.exit_code == 0, trusted.err);
  BOOST_TEST(trusted.out.find("203.0.113.11") != std::string::npos, trusted.out);
  BOOST_TEST(host.finish().exit_code == 0);
  BOOST_TEST((step_numbers(place.run("run")) == alone(place, "one")));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
