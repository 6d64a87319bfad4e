#include "actors/security/local_door.h"

#include <boost/test/unit_test.hpp>
#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <set>
#include <vector>

#include "actors/messages/control_plane.h"
#include "actors/security/sockets.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(local_door_test)

namespace {

using namespace troupe::actors;

/// Listens at another address of this host, at so many ports that one of any is soon among them:
/// of 100, all are free with a probability of 1 %.
class Crowd {
 public:
  Crowd() {
    for (int i = 0; i < 600; ++i) {
      sockets_.push_back(listen_on("127.0.0.2", {0, 0}));
      ports_.insert(port_of(sockets_.back()));
    }
  }
  bool has(int port) const { return ports_.contains(port); }

 private:
  std::vector<Socket> sockets_;
  std::set<int> ports_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(is_at_a_port_that_no_address_of_the_host_has) {
  const Crowd crowd;
  ControlPlaneConfig config{1};
  caf::actor_system system{config};
  const caf::actor actor =
      system.spawn([](caf::event_based_actor*) { return caf::behavior{[](int) {}}; });
  for (int i = 0; i < 100; ++i) BOOST_TEST(!crowd.has(publish_locally(actor)));
  caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
}

BOOST_AUTO_TEST_CASE(so_is_any_port_for_other_hosts) {
  const Crowd crowd;
  for (int i = 0; i < 100; ++i) BOOST_TEST(!crowd.has(port_of(listen_on("127.0.0.1", {0, 0}))));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
