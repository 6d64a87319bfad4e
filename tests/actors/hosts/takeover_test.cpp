#include <boost/test/unit_test.hpp>
#include <caf/io/middleman.hpp>
#include <fstream>

#include "actors/hosts/agent_calls.h"
#include "tests/actors/hosts/agents.h"

// Tests how the agent of a host comes from one launcher to another, with its workers.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(takeover_test)

using namespace actors;

namespace {

/// A command for an agent's workers: each leaves its bootstrap text in a file of the folder, and
/// goes on.
std::vector<std::string> workers_that_stay(const TempDir& dir) {
  return {"/bin/sh", "-c",
          "cat > " + dir.path().string() + "/new && mv " + dir.path().string() + "/new " +
              dir.path().string() + "/bootstrap && exec sleep 1000"};
}

/// The stage of such a worker, as its agent and its director know it.
class Stage {
 public:
  Stage(const TempDir& dir, std::uint64_t incarnation) {
    std::string text;
    while (text.empty()) text = content_of(dir / "bootstrap");  // the test's timeout bounds it
    const WorkerBootstrap bootstrap = parse_bootstrap(text);
    BOOST_TEST(bootstrap.incarnation == incarnation);
    token_ = bootstrap.token;
    std::filesystem::remove(dir / "bootstrap");
    door_ = *system_.middleman().remote_actor(bootstrap.host,
                                              static_cast<std::uint16_t>(bootstrap.port));
    self_->send(caf::actor_cast<AgentRef>(door_), Resident{.incarnation = incarnation});
    // Sent the same way, so that the agent knows of the resident when it is answered.
    self_->request(caf::actor_cast<AgentRef>(door_), caf::infinite, AskAgent{})
        .receive([](const AgentState& state) { BOOST_TEST(state.hello.host.name == ""); },
                 [](const caf::error&) { BOOST_ERROR("the agent did not answer"); });
  }
  NewDirector next_director() {
    NewDirector found;
    self_->receive([&](const NewDirector& director) { found = director; });
    return found;
  }
  /// What the director behind the door answers to Hello.
  std::string manifest() {
    std::string manifest;
    self_->request(caf::actor_cast<AgentRef>(door_), caf::infinite, Hello{.token = "of a worker"})
        .receive([&](const Welcome& welcome) { manifest = welcome.manifest; },
                 [](const caf::error&) { BOOST_ERROR("nobody answered"); });
    return manifest;
  }
  /// Whether the agent gives it files.
  bool is_given_files() {
    bool given = false;
    self_
        ->request(caf::actor_cast<AgentRef>(door_), caf::infinite,
                  FilesNeeded{.token = token_, .path = "/a"})
        .receive([&](const FilesHere& files) { given = files.path == "/a"; },
                 [](const caf::error&) {});
    return given;
  }

 private:
  std::string token_;
  ControlPlaneConfig config_{1};
  caf::actor_system system_{config_};
  caf::actor door_;
  caf::scoped_actor self_{system_};
};

/// Where the agent of a launcher's only host is.
AgentRecord record_of(Launcher& run) {
  const auto entry = run.hosts->registry().entries().at(0);
  BOOST_TEST(entry.door > 0);
  return {.host = entry.host.name, .address = entry.address, .port = entry.door};
}

std::vector<std::uint64_t> inherited(Launcher& run) {
  return run.hosts->registry().entries().at(0).inherited;
}

}  // namespace

BOOST_AUTO_TEST_CASE(workers_go_from_a_lost_launcher_to_another) {
  const Authority authority;
  const TempDir dir;
  auto first = std::make_unique<Launcher>(authority);
  RunningAgent agent(authority, first->hosts->port(), "h1", workers_that_stay(dir));
  first->director.serve({.term = 1, .token = "first"});
  first->director.next<HostJoined>();
  const AgentRecord record = record_of(*first);
  first->spawn(7);
  Stage stage(dir, 7);
  const auto inquiry = AgentInquiry::create(authority.issue(Role::director, "another"), {record});
  auto state = inquiry->ask().at(0);
  BOOST_REQUIRE(state.has_value());
  BOOST_TEST((state->term == 1u && !state->is_orphaned && state->hello.host.name == "h1"));
  BOOST_TEST(state->hello.token == "");
  first.reset();
  while (!inquiry->ask().at(0)->is_orphaned) {
  }  // the test's timeout bounds it

  Launcher second(authority);
  second.hosts->take_over({record}, 2, true);
  BOOST_TEST(inherited(second) == std::vector<std::uint64_t>{7});
  BOOST_TEST(second.workers->cpu_seconds(7) == 0);
  second.director.serve({.term = 2, .token = "second"});
  BOOST_TEST(second.director.next<HostJoined>().host.name == "h1");
  const NewDirector told = stage.next_director();
  BOOST_TEST((told.term == 2u && told.token == "second"));
  auto welcome = std::async(std::launch::async, [&] { second.director.welcome(); });
  BOOST_TEST(stage.manifest() == "of a worker");
  welcome.get();
  state = inquiry->ask().at(0);
  BOOST_TEST((state->term == 2u && !state->is_orphaned));
  second.workers->kill(7);
  BOOST_TEST(second.director.next<WorkerExited>().incarnation == 7u);
  second.hosts->dismiss("the run is over");
  BOOST_TEST(agent.outcome().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(workers_are_told_of_a_director_that_has_not_started_them) {
  const Authority authority;
  const TempDir dir;
  Launcher first(authority);
  RunningAgent agent(authority, first.hosts->port(), "h1", workers_that_stay(dir));
  first.director.serve({.term = 1, .token = "first"});
  first.director.next<HostJoined>();
  const AgentRecord record = record_of(first);
  first.spawn(7);
  Stage old(dir, 7);
  // The first launcher is there, and is heard no more.
  Launcher second(authority);
  second.hosts->take_over({record}, 2, true);
  second.director.serve({.term = 2, .token = "second"});
  second.director.next<HostJoined>();
  second.spawn(8, "other");
  Stage young(dir, 8);
  BOOST_TEST((old.is_given_files() && young.is_given_files()));
  BOOST_TEST(old.next_director().term == 2u);
  first.workers->kill_all();
  first.hosts->dismiss("the run is over");
  Launcher third(authority);
  third.hosts->take_over({record}, 3, true);
  BOOST_TEST(inherited(third) == (std::vector<std::uint64_t>{7, 8}));
  third.director.serve({.term = 3, .token = "third"});
  BOOST_TEST(old.next_director().term == 3u);
  BOOST_TEST(young.next_director().term == 3u);  // and never of the second, which had started it
}

BOOST_AUTO_TEST_CASE(a_launcher_without_a_higher_term_is_refused) {
  const Authority authority;
  Launcher first(authority);
  RunningAgent agent(authority, first.hosts->port(), "h1");
  first.director.serve({.term = 5, .token = "first"});
  first.director.next<HostJoined>();
  const AgentRecord record = record_of(first);
  for (const std::uint64_t term : {4, 5}) {
    Launcher other(authority);
    other.hosts->take_over({record}, term, true);
    BOOST_TEST(other.hosts->registry().entries().empty());
    BOOST_TEST(other.hosts->registry().refusals().at("h1") == "it obeys a launcher of term 5");
  }
  first.spawn(7);
  BOOST_TEST(first.director.next<WorkerExited>().incarnation == 7u);
}

BOOST_AUTO_TEST_CASE(workers_end_that_the_other_launcher_does_not_want) {
  const Authority authority;
  const TempDir dir;
  Launcher first(authority);
  RunningAgent agent(authority, first.hosts->port(), "h1", workers_that_stay(dir));
  first.director.serve({.term = 1, .token = "first"});
  first.director.next<HostJoined>();
  first.spawn(7);
  const Stage stage(dir, 7);
  Launcher second(authority);
  second.hosts->take_over({record_of(first)}, 2, false);
  BOOST_TEST(inherited(second).empty());
  second.director.serve({.term = 2, .token = "second"});
  BOOST_TEST(second.director.next<WorkerExited>().incarnation == 7u);
}

BOOST_AUTO_TEST_CASE(another_runs_launcher_takes_nothing_over) {
  Launcher run;
  RunningAgent agent(run.authority, run.hosts->port(), "h1");
  run.director.next<HostJoined>();
  const AgentRecord record = record_of(run);
  const Authority other;
  BOOST_TEST(!AgentInquiry::create(other.issue(Role::director, "another"), {record})->ask().at(0));
  Launcher stranger(other);
  stranger.hosts->take_over({record}, 9, true);
  BOOST_TEST(stranger.hosts->registry().entries().empty());
}

BOOST_AUTO_TEST_CASE(before_the_run_begins_an_agent_ends_with_its_launcher) {
  const Authority authority;
  auto launcher = std::make_unique<Launcher>(authority);
  RunningAgent agent(authority, launcher->hosts->port(), "h1");
  launcher->hosts->registry().wait([&] { return !launcher->hosts->registry().entries().empty(); });
  launcher.reset();
  const Outcome outcome = agent.outcome();
  BOOST_TEST((outcome.exit_code == 75 && outcome.reason == "the launcher is gone"), outcome.reason);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
