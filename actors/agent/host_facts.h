#pragma once

#include <string>

#include "actors/messages/survey_messages.h"

namespace troupe::actors {

/// What this host is. `address` is its own towards the others, `ports` as cluster.ports. Takes a
/// quarter of a second, in which it multiplies matrices with one thread.
HostFacts facts_of_host(const std::string& address, const std::string& ports);

}  // namespace troupe::actors
