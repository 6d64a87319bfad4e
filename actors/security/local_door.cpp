#include "actors/security/local_door.h"

#include <caf/actor_system.hpp>
#include <caf/io/middleman.hpp>

#include "actors/security/sockets.h"
#include "tensor/errors/error.h"

namespace troupe::actors {

int publish_locally(const caf::actor& actor) {
  constexpr int kTries = 16;  // of a port that another process takes first
  caf::actor_system& system = actor.home_system();
  for (int i = 1;; ++i) {
    const auto port = static_cast<std::uint16_t>(free_port());
    const auto published = system.middleman().publish(actor, port, "127.0.0.1");
    if (published) return *published;
    if (i == kTries)
      throw Error(ErrorKind::unavailable, "cannot open a port for workers on 127.0.0.1: " +
                                              system.render(published.error()));
  }
}

}  // namespace troupe::actors
