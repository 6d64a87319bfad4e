#include "actors/agent/agent_actor.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <caf/actor_system.hpp>
#include <caf/io/middleman.hpp>
#include <caf/scoped_actor.hpp>
#include <future>
#include <optional>

#include "tensor/errors/error.h"

// Tests whom an agent obeys: every process of its host may reach it.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(agent_actor_test)

using namespace actors;

BOOST_AUTO_TEST_CASE(orders_count_from_the_launcher_alone) {
  ControlPlaneConfig config{1};
  caf::actor_system system{config};
  LocalProcesses processes({"/bin/cat"}, [](const WorkerExited&) {});
  OwnThreads own_threads;
  std::promise<Outcome> ended;
  caf::scoped_actor launcher{system}, stranger{system};
  const caf::actor agent = system.spawn<AgentActor>(
      AgentSpec{}, caf::actor_cast<caf::actor>(launcher), std::ref(processes),
      std::ref(own_threads), [](const std::string&, int) { return false; },
      [&](const Outcome& outcome) { ended.set_value(outcome); });
  caf::anon_send(agent, DoorOpened{});
  launcher->receive([](const HostHello&) { return HostWelcome{}; });
  launcher->receive([](const AgentBeat&) {});
  stranger->send(agent, Dismissed{.exit_code = 3, .reason = "a stranger says so"});
  stranger->send(agent, FilesWanted{.paths = {"/etc/passwd"}});
  launcher->send(agent, FilesWanted{.paths = {"/", "/no such file"}});
  FilesSeen seen;
  const auto is_files = [&](const FilesSeen& answer) { seen = answer; };
  while (seen.bytes.empty()) launcher->receive(is_files, [](const AgentBeat&) {});
  BOOST_TEST(seen.bytes.size() == 2u);  // the launcher's question, and no other
  BOOST_TEST(seen.bytes.back() == -1);
  launcher->send(agent, Dismissed{.exit_code = 0, .reason = "the run is over"});
  BOOST_TEST(ended.get_future().get().reason == "the run is over");
}

/// As after a cut that is mended: the launcher has given the host up, and another agent comes.
BOOST_AUTO_TEST_CASE(an_agent_without_a_connection_ends_if_its_launcher_is_there) {
  ControlPlaneConfig config{1};
  caf::actor_system system{config};
  LocalProcesses processes({"/bin/cat"}, [](const WorkerExited&) {});
  OwnThreads own_threads;
  std::promise<Outcome> ended;
  std::optional<caf::scoped_actor> launcher(system);
  std::atomic<int> looks = 0;
  const caf::actor agent = system.spawn<AgentActor>(
      AgentSpec{}, caf::actor_cast<caf::actor>(*launcher), std::ref(processes),
      std::ref(own_threads),
      [&](const std::string& address, int port) {
        return address == "10.0.0.1" && port == 29600 && ++looks > 2;  // the cut is mended
      },
      [&](const Outcome& outcome) { ended.set_value(outcome); });
  caf::anon_send(agent, DoorOpened{});
  (*launcher)->receive([](const HostHello&) { return HostWelcome{}; });
  (*launcher)->receive([](const AgentBeat&) {});
  (*launcher)->send(agent,
                    RunBegins{.term = 1, .wait_s = 1e6, .address = "10.0.0.1", .port = 29600});
  launcher.reset();
  const Outcome outcome = ended.get_future().get();
  BOOST_TEST(outcome.reason == "the run has gone on without this host");
  BOOST_TEST(outcome.exit_code == static_cast<int>(ErrorKind::retry));
  BOOST_TEST(looks == 3);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
