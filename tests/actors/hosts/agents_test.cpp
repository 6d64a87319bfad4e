#include "tests/actors/hosts/agents.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <thread>

#include "actors/security/sockets.h"

// Tests the launcher's side of other hosts and their agents, each in an actor system of its own, on
// loopback.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(agents_test)

using namespace actors;

namespace {

/// Between an agent and a launcher: closes the first connections without a word, and passes on what
/// is said on the next one.
class BusyDoor {
 public:
  BusyDoor(int closes, int launcher)
      : thread_([this, closes, launcher](const std::stop_token& stopped) {
          for (int i = 0; i < closes; ++i) next();
          const Socket in = next();
          const Socket out =
              connect_to("127.0.0.1", launcher, Clock::now() + std::chrono::seconds(30));
          pollfd ends[]{{in.fd(), POLLIN, 0}, {out.fd(), POLLIN, 0}};
          while (!stopped.stop_requested()) {
            poll(ends, 2, 100);
            for (int from : {0, 1})
              if (ends[from].revents != 0 && !pass_on(ends[from].fd, ends[1 - from].fd)) return;
          }
        }) {}
  int port() const { return port_of(door_); }

 private:
  using Clock = std::chrono::steady_clock;
  Socket next() {
    wait_for(door_.fd(), POLLIN, Clock::now() + std::chrono::seconds(30));
    return Socket(accept(door_.fd(), nullptr, nullptr));
  }
  static bool pass_on(int from, int to) {
    std::array<char, 4096> bytes{};
    const ssize_t got = recv(from, bytes.data(), bytes.size(), 0);
    return got > 0 && send(to, bytes.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) == got;
  }

  const Socket door_ = listen_on("127.0.0.1", {});
  std::jthread thread_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_agent_that_is_not_attended_to_tries_again) {
  Launcher run;
  BusyDoor door(3, run.hosts->port());  // three attempts are closed
  RunningAgent agent(run.authority, door.port(), "h1");
  BOOST_TEST(run.director.next<HostJoined>().host.name == "h1");
  run.hosts->dismiss("the run is over");
  BOOST_TEST(agent.outcome().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(an_agent_starts_workers_and_tells_of_their_ends) {
  Launcher run;
  RunningAgent agent(run.authority, run.hosts->port(), "h1");
  const auto joined = run.director.next<HostJoined>();
  BOOST_TEST((joined.host.name == "h1" && joined.host.slots == 2 && joined.host.cores == 3));
  run.spawn(7);
  const auto exit = run.director.next<WorkerExited>();
  BOOST_TEST((exit.incarnation == 7u && exit.exit_code == 0), exit.cause);
  run.hosts->dismiss("the run is over");
  BOOST_TEST(agent.outcome().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(a_worker_is_killed_where_it_runs) {
  Launcher run;
  RunningAgent agent(run.authority, run.hosts->port(), "h1", {"/bin/sleep", "1000"});
  run.director.next<HostJoined>();
  run.spawn(7);
  run.workers->kill(7);
  BOOST_TEST(run.director.next<WorkerExited>().exit_code == -1);
}

BOOST_AUTO_TEST_CASE(how_far_a_clock_is_ahead_is_measured_by_signs_of_life) {
  Launcher run;
  RunningAgent agent(run.authority, run.hosts->port(), "h1", {"/bin/sleep", "1000"});
  run.director.next<HostJoined>();
  run.spawn(7);
  std::optional<ClockAhead> clock;
  run.hosts->registry().wait([&] { return (clock = run.workers->clock_of(7)).has_value(); });
  BOOST_TEST(std::abs(clock->seconds) <= clock->error_s);   // both use the clock of this machine
  BOOST_TEST((*run.workers->clock_of(8) == ClockAhead{}));  // a worker of the launcher's host
  std::vector<HostStatus> hosts{{.host = "h1"}};
  run.hosts->describe(hosts);
  BOOST_TEST(hosts[0].clock.has_value());
}

BOOST_AUTO_TEST_CASE(a_worker_for_a_host_that_is_gone_is_told_to_have_ended) {
  Launcher run;
  run.spawn(9);
  const auto exit = run.director.next<WorkerExited>();
  BOOST_TEST(exit.incarnation == 9u);
  BOOST_TEST(exit.cause.find("h1") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_agent_that_ends_is_the_loss_of_its_host) {
  Launcher run;
  {
    RunningAgent agent(run.authority, run.hosts->port(), "h1");
    run.director.next<HostJoined>();
  }
  const auto lost = run.director.next<HostLost>();
  BOOST_TEST(lost.name == "h1");
  // Another agent of the same host may come.
  RunningAgent again(run.authority, run.hosts->port(), "h1");
  BOOST_TEST(run.director.next<HostJoined>().host.name == "h1");
}

BOOST_AUTO_TEST_CASE(a_host_that_leaves_is_dismissed_with_its_last_worker) {
  Launcher run;
  RunningAgent agent(run.authority, run.hosts->port(), "h1", {"/bin/sleep", "1000"});
  run.director.next<HostJoined>();
  run.spawn(7);
  agent.agent().leave("SIGTERM");
  const auto draining = run.director.next<HostsDraining>();
  BOOST_TEST((draining.names == std::vector<std::string>{"h1"} && draining.cause == "SIGTERM"));
  run.workers->kill(7);
  run.director.next<WorkerExited>();
  BOOST_TEST(agent.outcome().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(a_host_that_is_let_go_is_dismissed_with_its_last_worker) {
  Launcher run;
  RunningAgent agent(run.authority, run.hosts->port(), "h1", {"/bin/sleep", "1000"});
  run.director.next<HostJoined>();
  run.spawn(7);
  run.workers->let_go("h1");
  run.workers->kill(7);
  run.director.next<WorkerExited>();
  BOOST_TEST(agent.outcome().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(a_host_that_differs_is_refused_with_both_values) {
  Launcher run;
  auto traits = kTraits;
  traits["UCX"] = "1.14.0";
  RunningAgent other(run.authority, run.hosts->port(), "h1", {"/bin/cat"}, traits);
  const Outcome outcome = other.outcome();
  BOOST_TEST(outcome.exit_code == 69);
  BOOST_TEST(outcome.reason ==
             "its UCX is 1.14.0, but the launcher's is 1.13.1; install the same on both");
  BOOST_TEST(run.hosts->registry().refusals().at("h1") == outcome.reason);
  BOOST_TEST(run.hosts->registry().entries().empty());
}

BOOST_AUTO_TEST_CASE(a_host_on_a_public_network_is_refused) {
  Launcher run;
  RunningAgent other(run.authority, run.hosts->port(), "h1", {"/bin/cat"}, kTraits, "203.0.113.9");
  const Outcome outcome = other.outcome();
  BOOST_TEST(outcome.exit_code == 69);
  for (const char* word : {"203.0.113.9", "private", "cluster.trusted_network"})
    BOOST_TEST(outcome.reason.find(word) != std::string::npos, outcome.reason);
}

BOOST_AUTO_TEST_CASE(a_host_that_nobody_named_has_the_slots_of_others) {
  Launcher run;
  RunningAgent unnamed(run.authority, run.hosts->port(), "h9");
  const auto joined = run.director.next<HostJoined>();
  BOOST_TEST((joined.host.name == "h9" && joined.host.slots == 1));
}

BOOST_AUTO_TEST_CASE(hosts_tell_of_themselves_and_of_the_ways_between_them) {
  Launcher run;
  RunningAgent one(run.authority, run.hosts->port(), "h1"),
      two(run.authority, run.hosts->port(), "h2");
  for (int i = 0; i < 2; ++i) run.director.next<HostJoined>();
  SurveyPlan plan{.looks = true, .measures = true};
  for (const char* host : {"h0", "h1", "h2", "h9"})
    plan.hosts.push_back({.host = host, .address = "127.0.0.1"});
  try_each_other(plan, 1);
  std::promise<SurveyResult> told;
  run.hosts->survey({.plan = plan, .done = [&](const SurveyResult& all) { told.set_value(all); }});
  const SurveyResult result = told.get_future().get();
  for (int host = 0; host < 3; ++host) {
    const SurveyResult::Entry& entry = result.hosts.at(static_cast<std::size_t>(host));
    BOOST_TEST(entry.fault == "", entry.host);
    BOOST_TEST(entry.facts.interface == "lo");
    BOOST_TEST(entry.facts.flops > 0);
    BOOST_TEST(entry.links.size() == 2u);
    for (const LinkProbe& link : entry.links) {
      BOOST_TEST(link.fault == "");
      BOOST_TEST(link.bytes_per_s > 0);
    }
  }
  BOOST_TEST(result.hosts.at(3).fault != "");
}

BOOST_AUTO_TEST_CASE(another_runs_host_is_refused) {
  Launcher run;
  const Authority other;
  RunningAgent stranger(other, run.hosts->port(), "h1");
  BOOST_CHECK_THROW(stranger.outcome(), Error);
  BOOST_TEST(run.hosts->registry().entries().empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
