#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "tests/hosts/hosts_runs.h"

// Tests hosts that cannot take part, each for another reason: the launch says which, why and what
// helps before anything is trained, and leaves nothing.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(bad_input_test)

namespace {

namespace fs = std::filesystem;

/// Two hosts, on which launches of a run of two ranks are refused.
class Refusals {
 public:
  explicit Refusals(int hosts = 2) : lab(hosts) { lab.start_ssh(); }

  /// Launches with these keys. The message has all of the words.
  void expect(const Keys& keys, int code, std::initializer_list<const char*> words) {
    Keys all = on_hosts({{"mesh.pp", "2"}});
    for (const auto& [key, value] : keys) all[key] = value;
    const Finished run =
        lab.run(0, launch_on_hosts(place, place.manifest("run", all), "h0:1\nh1:1\n"));
    BOOST_TEST(run.exit_code == code, run.err);
    for (const char* word : words)
      BOOST_TEST(run.err.find(word) != std::string::npos, word << " in " << run.err);
    BOOST_TEST(!fs::exists(place.run("run")));
    for (const int host : {0, 1}) BOOST_TEST(programs_on(lab, host).empty());
  }
  /// The command that starts agents, with further options of SSH.
  static std::string ssh_with(const std::string& options) {
    std::string words;
    for (const std::string& word : Lab::ssh()) words += word + " ";
    return '"' + words + options + '"';
  }

  Workplace place;
  Lab lab;
};

}  // namespace

BOOST_AUTO_TEST_CASE(what_keeps_ssh_from_a_host_is_told_with_a_remedy) {
  Refusals refused;
  refused.expect({{"cluster.ssh", Refusals::ssh_with("-o PreferredAuthentications=password")}}, 69,
                 {"h1", "Permission denied", "ssh-copy-id h1"});
  refused.expect({{"cluster.ssh", Refusals::ssh_with("-o UserKnownHostsFile=/dev/null")}}, 69,
                 {"h1", "Host key verification failed", "ssh-keyscan h1"});
  refused.expect({{"cluster.ssh", Refusals::ssh_with("-p 23")}}, 69,
                 {"h1", "Connection refused", "no SSH server listens there"});
  refused.expect({{"cluster.program", "\"/nowhere/troupe\""}}, 69,
                 {"h1", "/nowhere/troupe", "cluster.program"});
  refused.expect({{"cluster.ssh", "\"/nowhere/ssh\""}}, 69, {"h1", "/nowhere/ssh"});
}

BOOST_AUTO_TEST_CASE(a_host_with_another_build_is_refused_with_both) {
  Refusals refused;
  const std::string other = (refused.place.dir / "troupe").string();
  fs::copy_file(binary_on_hosts(), other);
  std::ofstream(other, std::ios::app) << "another build";
  refused.expect({{"cluster.program", '"' + other + '"'}}, 69,
                 {"h1", "program is", "but the launcher's is", "install the same"});
}

BOOST_AUTO_TEST_CASE(an_interface_that_a_host_lacks_is_told_with_those_that_it_has) {
  Refusals refused;
  refused.expect({{"cluster.interface", "\"eth9\""}}, 69, {"eth9", "eth0 (10.88.0.10"});
  const auto on_first = [&](std::vector<std::string> words) {
    BOOST_REQUIRE(refused.lab.run(0, words).exit_code == 0);
  };
  on_first({"ip", "link", "add", "fast0", "type", "veth", "peer", "name", "fast1"});
  on_first({"ip", "address", "add", "10.99.0.1/24", "dev", "fast0"});
  on_first({"ip", "link", "set", "fast0", "up"});
  refused.expect({{"cluster.interface", "\"fast0\""}}, 69,
                 {"h1", "cluster.interface", "fast0", "eth0 (10.88.0.11"});
}

BOOST_AUTO_TEST_CASE(a_firewall_between_an_agent_and_the_launcher_is_told_with_the_address) {
  Refusals refused;
  const Finished rule = refused.lab.run(
      0, {"nft",
          "add table inet f; add chain inet f in { type filter hook input priority 0; }; "
          "add rule inet f in iifname eth0 tcp flags & (syn|ack) == syn drop"});
  BOOST_REQUIRE_MESSAGE(rule.exit_code == 0, rule.err);
  refused.expect({}, 69, {"h1", "10.88.0.10:", "firewall"});
}

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

BOOST_AUTO_TEST_CASE(a_host_that_came_and_was_refused_is_told_when_the_wait_is_over) {
  const Workplace place;
  Lab lab(2);
  const std::string token = place.dir.write("token", "s3cret\n"),
                    wrong = place.dir.write("wrong", "other\n");
  for (const std::string& file : {token, wrong}) fs::permissions(file, fs::perms::owner_read);
  HostProgram launcher(
      lab, 0,
      {binary_on_hosts(), "launch",
       place.manifest("run", {{"mesh.pp", "2"}, {"cluster.wait", "10"}}), "--wait-for-hosts", "2",
       "--rendezvous", "h0:29600", "--token-file", token});
  const Finished stranger =
      lab.run(1, {binary_on_hosts(), "join", "--rendezvous", "h0:29600", "--token-file", wrong});
  BOOST_TEST(stranger.exit_code == 69, stranger.err);
  for (const char* word : {"h0:29600", "secret"})
    BOOST_TEST(stranger.err.find(word) != std::string::npos, stranger.err);
  const Finished run = launcher.finish();
  BOOST_TEST(run.exit_code == 69, run.err);
  for (const char* word : {"1 of 2 hosts", "1 connection without the run's secret"})
    BOOST_TEST(run.err.find(word) != std::string::npos, run.err);
  BOOST_TEST(!fs::exists(place.run("run")));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
