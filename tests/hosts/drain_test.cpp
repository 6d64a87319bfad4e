#include <signal.h>

#include <boost/test/unit_test.hpp>

#include "tests/hosts/long_run.h"

// Tests hosts that are left: by an order, or by a signal to their agents. No step is
// computed again, and losses stay those of one process.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(drain_test)

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
  BOOST_TEST(num_events(run.dir(), "failure") == 0u);
  run.end_and_compare();
}

BOOST_AUTO_TEST_CASE(a_host_whose_agent_gets_a_warning_is_left) {
  LongRun run({{"mesh.pp", "2"}}, "h0:1\nh1:1\nh2:1\nh3:1\n", 4);
  kill(agent_on(run.lab, 1), SIGUSR1);
  run.wait_until_left(1);
  kill(agent_on(run.lab, 2), SIGUSR2);
  run.wait_until_left(2);
  BOOST_TEST(num_events(run.dir(), "failure") == 0u);
  run.end_and_compare();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
