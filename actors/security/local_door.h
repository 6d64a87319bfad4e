#pragma once

#include <caf/actor.hpp>

namespace troupe::actors {

/// Publishes an actor to the processes of this host, at a port of 127.0.0.1 that no other of its
/// addresses has: CAF knows what a process has published by the port alone, and one more actor at
/// the port of a door for other hosts would take that door away. Returns the port. Throws
/// Error{unavailable}.
int publish_locally(const caf::actor& actor);

}  // namespace troupe::actors
