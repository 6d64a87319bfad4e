#include <signal.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "tests/hosts/hosts_runs.h"

// Tests what a run over several hosts survives: lost hosts, hosts that come back, hosts that are
// asked to leave. Losses stay those of one process.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(host_recovery_test)

namespace {

/// A run of many steps on hosts of a lab.
class LongRun {
 public:
  LongRun(Keys keys, const std::string& hosts, int num_hosts) : lab(num_hosts) {
    keys["run.max_steps"] = "100000";
    lab.start_ssh();
    program.emplace(lab, 0, launch_on_hosts(place, place.manifest("run", on_hosts(keys)), hosts));
    BOOST_REQUIRE(program->read_until("step 5/"));
  }
  std::string dir() const { return place.run("run"); }
  /// As a host is told, the launcher's or another.
  std::size_t num_ranks(int host) const {
    const Finished status = lab.run(host, {binary_on_hosts(), "status", dir(), "--json"});
    BOOST_REQUIRE_MESSAGE(status.exit_code == 0, status.err);
    return nlohmann::json::parse(status.out).at("ranks").size();
  }
  /// Goes on for some steps, ends the run, and compares its losses with those of one process.
  void end_and_compare() {
    read_new_steps(*program, dir(), 5);
    const Finished stop = lab.run(0, {binary_on_hosts(), "stop", dir()});
    BOOST_TEST(stop.exit_code == 0, stop.err);
    BOOST_TEST(program->finish().exit_code == 0);
    const auto numbers = step_numbers(dir());
    const int steps = std::min(100, numbers.rbegin()->first);
    BOOST_TEST((until_step(steps, numbers) ==
                alone(place, "alone", {{"run.max_steps", std::to_string(steps)}})));
  }

  Workplace place;
  Lab lab;
  std::optional<HostProgram> program;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_spare_host_takes_the_place_of_one_whose_cable_is_pulled) {
  LongRun run({{"mesh.pp", "2"}, {"recovery.spare_hosts", "1"}}, "h0:1\nh1:1\nh2:1\n", 3);
  run.lab.cut(1);
  wait_for_event(run.dir(), "recovered", {{"from", "memory"}});
  BOOST_TEST(num_events(run.dir(), "host", {{"host", "h1"}, {"state", "lost"}}) == 1u);
  BOOST_TEST(num_events(run.dir(), "failure") == 1u);
  run.lab.heal(1);
  wait_for_event(run.dir(), "host", {{"host", "h1"}, {"state", "spare"}});
  run.end_and_compare();
}

BOOST_AUTO_TEST_CASE(a_host_that_joins_a_live_run_with_its_secret_is_its_spare) {
  LongRun run({{"mesh.pp", "2"}}, "h0:1\nh1:1\n", 3);
  const std::string secret = run.place.dir.write("secret", "guessed\n");
  std::filesystem::permissions(secret, std::filesystem::perms::owner_read);
  const auto invitation = nlohmann::json::parse(std::ifstream(run.dir() + "/join.json"));
  const Finished stranger = run.lab.run(
      2, {binary_on_hosts(), "join", "--rendezvous",
          "h0:" + std::to_string(invitation.at("port").get<int>()), "--token-file", secret});
  BOOST_TEST(stranger.exit_code == 69, stranger.err);
  const Finished hosts = run.lab.run(0, {binary_on_hosts(), "hosts", run.dir()});
  BOOST_TEST(hosts.out.find("without a certificate") != std::string::npos, hosts.out);
  HostProgram joined(run.lab, 2, {binary_on_hosts(), "join", run.dir()});
  wait_for_event(run.dir(), "host", {{"host", "h2"}, {"state", "spare"}});
  run.lab.cut(1);
  wait_for_event(run.dir(), "recovered", {{"from", "memory"}});
  BOOST_TEST(run.num_ranks(2) == 2u);
  run.end_and_compare();
  BOOST_TEST(joined.finish().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(a_cluster_without_a_spare_shrinks_and_grows_back) {
  LongRun run({{"mesh.pp", "4"}}, "h0:2\nh1:2\n", 2);
  run.lab.cut(1);
  wait_for_event(run.dir(), "recovered", {{"from", "memory"}});
  run.lab.heal(1);
  BOOST_TEST(run.num_ranks(0) == 2u);
  wait_for_event(run.dir(), "rescaled");
  BOOST_TEST(run.num_ranks(1) == 4u);
  run.end_and_compare();
}

BOOST_AUTO_TEST_CASE(a_host_that_is_asked_to_leave_costs_no_step) {
  LongRun run({{"mesh.pp", "4"}}, "h0:2\nh1:2\n", 2);
  const pid_t agent = agent_on(run.lab, 1);
  BOOST_REQUIRE(agent > 0);
  kill(agent, SIGTERM);
  wait_for_event(run.dir(), "rescaled");
  while (!programs_on(run.lab, 1).empty()) {
  }  // the test's timeout bounds it
  BOOST_TEST(num_events(run.dir(), "failure") == 0u);
  BOOST_TEST(num_events(run.dir(), "step_again") == 0u);
  run.end_and_compare();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
