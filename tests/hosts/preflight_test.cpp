#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/hosts/hosts_runs.h"

// Tests what the hosts of a run are asked before it starts anything: by a launch, and by the doctor
// alone.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(preflight_test)

namespace {

/// Hosts that ssh reaches, and a manifest for two stages on them.
struct Hosts {
  explicit Hosts(int count) : lab(count) { lab.start_ssh(); }

  std::string manifest(Keys keys = {}) const {
    keys.insert({"mesh.pp", "2"});
    return place.manifest("run", on_hosts(std::move(keys)));
  }
  Finished launch(const std::string& hosts, const Keys& keys = {}) const {
    return lab.run(0, launch_on_hosts(place, manifest(keys), hosts));
  }
  Finished doctor(const std::string& hosts, const Keys& keys = {}) const {
    return lab.run(0, {binary_on_hosts(), "doctor", "--hosts", manifest(keys), "--json",
                       "--hostfile", place.dir.write("hosts", hosts)});
  }
  /// Nothing runs on any host, and nothing of the run was written.
  void check_nothing_is_left(int count) const {
    for (int host = 0; host < count; ++host) BOOST_TEST(programs_on(lab, host).empty());
    BOOST_TEST(!std::filesystem::exists(place.run("run")));
  }

  Workplace place;
  Lab lab;
};

void check_refused(const Finished& run, const std::vector<std::string>& words) {
  BOOST_TEST(run.exit_code == 69, run.err);
  for (const std::string& word : words)
    BOOST_TEST(run.err.find(word) != std::string::npos, word << " in " << run.err);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_launch_tells_of_its_hosts_and_the_doctor_of_them_alone) {
  const Hosts hosts(2);
  const Finished doctor = hosts.doctor("h0:1\nh1:1\n", {{"cluster.ports", "\"29600-29603\""}});
  BOOST_REQUIRE_MESSAGE(doctor.exit_code == 0, doctor.err);
  const auto told = nlohmann::json::parse(doctor.out);
  BOOST_TEST_REQUIRE(told.at("hosts").size() == 2u);
  const auto& h1 = told.at("hosts")[1];
  BOOST_TEST(h1.at("host") == "h1");
  BOOST_TEST(h1.at("interface") == "eth0");
  BOOST_TEST(h1.at("address") == Lab::address(1));
  BOOST_TEST(h1.at("shm_bytes") == std::int64_t{1} << 30);
  BOOST_TEST(h1.at("ranks") == 1);
  for (const char* measured : {"flops", "memory_bytes", "clock_error_s"})
    BOOST_TEST(h1.at(measured).get<double>() > 0, measured);
  BOOST_TEST(told.at("links").size() == 2u);
  for (const auto& link : told.at("links")) {
    BOOST_TEST(link.at("fault") == "");
    BOOST_TEST(link.at("round_trip_s").get<double>() > 0);
    BOOST_TEST(link.at("bytes_per_s").get<double>() > 0);
    const std::string at = link.at("address");
    BOOST_TEST(at.substr(0, at.size() - 1).ends_with(":2960"), at);
  }
  BOOST_TEST(told.at("refusals").empty());
  hosts.check_nothing_is_left(2);
  const Finished run = hosts.launch("h0:1\nh1:1\n");
  BOOST_REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  for (const std::string& words :
       {"host      h1, eth0 " + Lab::address(1), std::string("ways      2 between hosts"),
        std::string("equal     CAF ")})
    BOOST_TEST(run.out.find(words) != std::string::npos, words << " in " << run.out);
}

BOOST_AUTO_TEST_CASE(hosts_that_come_by_themselves_are_looked_at_over_ipv6) {
  const Workplace place;
  Lab lab(2);
  const std::string token = place.dir.write("token", "s3cret\n");
  std::filesystem::permissions(token, std::filesystem::perms::owner_read);
  const std::vector<std::string> where{"--rendezvous", "h0-v6:29600", "--token-file", token};
  const auto words = [&](std::vector<std::string> command) {
    command.insert(command.begin(), binary_on_hosts());
    command.insert(command.end(), where.begin(), where.end());
    return command;
  };
  HostProgram doctor(lab, 0,
                     words({"doctor", "--hosts", place.manifest("run", {{"mesh.pp", "2"}}),
                            "--wait-for-hosts", "2", "--json"}));
  HostProgram host(lab, 1, words({"join"}));
  const Finished told = doctor.finish();
  BOOST_REQUIRE_MESSAGE(told.exit_code == 0, told.err);
  const auto links = nlohmann::json::parse(told.out).at("links");
  BOOST_TEST_REQUIRE(links.size() == 2u);
  for (const auto& link : links)
    BOOST_TEST(link.at("address").get<std::string>().starts_with("[fd88::"));
  BOOST_TEST(host.finish().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(two_hosts_that_do_not_reach_each_other_are_refused_both_by_name) {
  Hosts hosts(3);
  hosts.lab.drop(1, 2);
  check_refused(hosts.launch("h0:1\nh1:1\nh2:1\n", {{"mesh.pp", "3"}}),
                {"h1 and h2 do not reach each other", Lab::address(1) + ":", Lab::address(2) + ":",
                 "firewall"});
  const Finished doctor = hosts.doctor("h0:1\nh1:1\nh2:1\n", {{"mesh.pp", "3"}});
  BOOST_TEST(doctor.exit_code == 69, doctor.err);
  BOOST_TEST(nlohmann::json::parse(doctor.out).at("refusals").size() == 1u);
  hosts.check_nothing_is_left(3);
}

BOOST_AUTO_TEST_CASE(what_a_host_lacks_is_refused_with_its_name) {
  Hosts hosts(2);
  check_refused(
      hosts.launch("h0:2\nh1:2\n", {{"mesh.pp", "4"}, {"cluster.ports", "\"29600-29601\""}}),
      {"host h0", "host h1", "29600-29601", "2 ranks", "cluster.ports"});
  // An interface that the launcher has, and the other host has not.
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"ip", "link", "add", "card", "type", "bridge"},
        {"ip", "address", "add", "10.99.0.1/24", "dev", "card"},
        {"ip", "link", "set", "card", "up"}})
    BOOST_REQUIRE(hosts.lab.run(0, words).exit_code == 0);
  check_refused(hosts.launch("h0:1\nh1:1\n", {{"cluster.interface", "\"card\""}}),
                {"h1", "no network interface \"card\"", "eth0"});
  check_refused(hosts.launch("h0:1\nh1:1\n", {{"cluster.interface", "\"none\""}}),
                {"no network interface \"none\"", "eth0"});
  hosts.check_nothing_is_left(2);
}

BOOST_AUTO_TEST_CASE(a_small_dev_shm_is_refused_where_messages_go_through_it_and_else_serves) {
  Hosts hosts(2);
  BOOST_REQUIRE(hosts.lab.run(1, {"mount", "-o", "remount,size=1m", "/dev/shm"}).exit_code == 0);
  const Keys keys{{"mesh.pp", "4"}, {"cluster.forward_env", "[\"UCX_TLS\"]"}};
  auto words = launch_on_hosts(hosts.place, hosts.manifest(keys), "h0:2\nh1:2\n");
  words.insert(words.begin(), {"env", "UCX_TLS=all"});
  check_refused(hosts.lab.run(0, words), {"host h1", "/dev/shm has 1.0 MiB", "UCX_TLS"});
  hosts.check_nothing_is_left(2);
  const Finished run = hosts.launch("h0:2\nh1:2\n", {{"mesh.pp", "4"}});
  BOOST_TEST(run.exit_code == 0, run.err);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
