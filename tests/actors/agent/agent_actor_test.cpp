#include "actors/agent/agent_actor.h"

#include <boost/test/unit_test.hpp>
#include <caf/actor_system.hpp>
#include <caf/io/middleman.hpp>
#include <caf/scoped_actor.hpp>
#include <future>

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
      std::ref(own_threads), [&](const Outcome& outcome) { ended.set_value(outcome); });
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

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
