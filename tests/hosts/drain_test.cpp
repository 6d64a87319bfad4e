#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <ctime>
#include <filesystem>

#include "tests/hosts/long_run.h"

// Tests hosts that are left: by an order, by a signal to their agents, by a time limit. No step is
// computed again, and losses stay those of one process.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(drain_test)

namespace {

/// A time limit in forty seconds: enough for a start, and half of it is left for leaving.
std::string soon() {
  return "SLURM_JOB_END_TIME=" + std::to_string(std::time(nullptr) + 40);
}

}  // namespace

BOOST_AUTO_TEST_CASE(hosts_are_left_by_order) {
  LongRun run({{"mesh.pp", "3"}}, "h0:1\nh1:1\nh2:1\nh3:1\n", 5);
  HostProgram joined(run.lab, 4, {binary_on_hosts(), "join", run.dir()});
  wait_for_event(run.dir(), "host", {{"host", "h4"}, {"state", "spare"}});
  const std::string free = run.scale({"--without-host", "h4"});
  BOOST_TEST(free.find("no step had to wait") != std::string::npos, free);
  BOOST_TEST(joined.finish().exit_code == 0);
  const std::string moved = run.scale({"--without-host", "h1"});
  BOOST_TEST(moved.find("--without-host h1") != std::string::npos, moved);
  run.wait_until_left(1);
  run.scale({"--hosts", "2"});
  run.wait_until_left(3);
  BOOST_TEST(run.num_ranks(0) == 2u);
  const std::string refused = run.scale({"--hosts", "3"}, 64);
  BOOST_TEST(refused.find("2 hosts may have ranks: h0, h2") != std::string::npos, refused);
  BOOST_TEST(failures(run.dir()) == "");
  run.end_and_compare();
}

BOOST_AUTO_TEST_CASE(a_host_whose_agent_gets_a_warning_is_left) {
  LongRun run({{"mesh.pp", "2"}}, "h0:1\nh1:1\nh2:1\nh3:1\n", 4);
  kill(agent_on(run.lab, 1), SIGUSR1);
  run.wait_until_left(1);
  kill(agent_on(run.lab, 2), SIGUSR2);
  run.wait_until_left(2);
  BOOST_TEST(failures(run.dir()) == "");
  run.end_and_compare();
}

BOOST_AUTO_TEST_CASE(a_host_is_left_before_its_time_limit) {
  LongRun run({{"mesh.pp", "2"}}, "h0:2\nh1:1\n", 3);
  HostProgram joined(run.lab, 2, {"env", soon(), binary_on_hosts(), "join", run.dir()});
  wait_for_event(run.dir(), "host", {{"host", "h2"}, {"state", "spare"}});
  run.scale({"--without-host", "h1"});
  BOOST_TEST(run.num_ranks(0) == 2u);
  wait_for_event(run.dir(), "host", {{"host", "h2"}, {"state", "draining"}});
  BOOST_TEST(joined.finish().exit_code == 0);
  BOOST_TEST(failures(run.dir()) == "");
  run.end_and_compare();
}

BOOST_AUTO_TEST_CASE(a_run_whose_hosts_all_have_a_time_limit_is_saved_and_ends_with_75) {
  const Workplace place;
  Lab lab(2);
  lab.start_ssh();
  const Keys keys{{"mesh.pp", "2"},
                  {"run.max_steps", "100000"},
                  {"cluster.forward_env", R"(["SLURM_JOB_END_TIME"])"}};
  auto words = launch_on_hosts(place, place.manifest("run", on_hosts(keys)), "h0:1\nh1:1\n");
  words.insert(words.begin(), {"env", soon()});
  const Finished run = lab.run(0, words);
  BOOST_TEST(run.exit_code == 75, run.err);
  BOOST_TEST(run.err.find("no host but those that are to be left (h0, h1)") != std::string::npos,
             run.err);
  const int last = step_numbers(place.run("run")).rbegin()->first;
  BOOST_TEST(std::filesystem::exists(place.checkpoint("run", last)));
  BOOST_TEST(num_events(place.run("run"), "rescaled") == 0u);  // nothing moved for nothing
  BOOST_TEST((programs_on(lab, 0).empty() && programs_on(lab, 1).empty()));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
