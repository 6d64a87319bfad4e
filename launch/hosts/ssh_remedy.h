#pragma once

#include <string>

namespace troupe::launch {

/// What helps if SSH could not start an agent on this host and "ended with exit code 255: " and
/// these words; empty if they are not known, or are the agent's.
std::string ssh_remedy(const std::string& host, const std::string& words);

}  // namespace troupe::launch
