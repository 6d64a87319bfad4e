#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/hosts/long_run.h"

// Tests what a run over several hosts survives: lost hosts, hosts that come back, hosts that are
// asked to leave. Losses stay those of one process.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(host_recovery_test)

BOOST_AUTO_TEST_CASE(a_spare_host_takes_the_place_of_one_whose_cable_is_pulled) {
  LongRun run({{"mesh.pp", "2"}, {"recovery.spare_hosts", "1"}}, "h0:1\nh1:1\nh2:1\n", 3);
  run.lab.cut(1);
  wait_for_event(run.dir(), "recovered", {{"from", "memory"}});
  BOOST_TEST(num_events(run.dir(), "host", {{"host", "h1"}, {"state", "lost"}}) == 1u);
  BOOST_TEST(num_events(run.dir(), "failure") == 1u, failures(run.dir()));
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

/// The agent is lost later, once, and comes back as often as that.
BOOST_AUTO_TEST_CASE(a_host_does_without_the_ssh_that_started_its_agent) {
  LongRun run({{"mesh.pp", "2"}, {"recovery.spare_hosts", "1"}}, "h0:1\nh1:1\nh2:1\n", 3);
  const pid_t agent = agent_on(run.lab, 1);
  int killed = 0;
  for (const Lab::Process& process : run.lab.processes(0))
    if (process.command.starts_with("ssh ") && process.command.find(" h1 ") != std::string::npos)
      killed += kill(process.pid, SIGKILL) == 0;
  BOOST_TEST(killed == 1);
  read_new_steps(*run.program, run.dir(), 20);
  BOOST_TEST(agent_on(run.lab, 1) == agent);
  kill(agent, SIGKILL);
  wait_for_event(run.dir(), "host", {{"host", "h1"}, {"state", "spare"}});
  BOOST_TEST(num_events(run.dir(), "host", {{"host", "h1"}, {"state", "lost"}}) == 1u);
  run.end_and_compare();
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

/// By number and by name; without hosts of its own the lost stage would go to the spare host.
BOOST_AUTO_TEST_CASE(a_stage_stays_on_hosts_of_its_own) {
  LongRun run({{"mesh.pp", "2"}, {"mesh.stage", "[{hosts=1}, {hosts=[\"h2\", \"h0\"]}]"}},
              "h0:1\nh1:1\nh2:1\nh3:1\n", 4);
  const auto hosts = [&] {
    std::vector<std::string> names;
    const Finished status = run.lab.run(0, {binary_on_hosts(), "status", run.dir(), "--json"});
    const auto told = nlohmann::json::parse(status.out);
    for (const auto& rank : told.at("ranks")) names.push_back(rank.at("host"));
    return names;
  };
  BOOST_TEST(hosts() == (std::vector<std::string>{"h1", "h2"}), boost::test_tools::per_element());
  run.lab.cut(2);
  wait_for_event(run.dir(), "recovered", {{"from", "memory"}});
  run.lab.heal(2);
  BOOST_TEST(hosts() == (std::vector<std::string>{"h1", "h0"}), boost::test_tools::per_element());
  run.end_and_compare();
}

BOOST_AUTO_TEST_CASE(a_host_that_is_asked_to_leave_costs_no_step) {
  LongRun run({{"mesh.pp", "4"}}, "h0:2\nh1:2\n", 2);
  const pid_t agent = agent_on(run.lab, 1);
  BOOST_REQUIRE(agent > 0);
  kill(agent, SIGTERM);
  wait_for_event(run.dir(), "rescaled");
  run.wait_until_left(1);
  BOOST_TEST(failures(run.dir()) == "");
  BOOST_TEST(num_events(run.dir(), "step_again") == 0u);
  run.end_and_compare();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
