#pragma once

#include <map>
#include <string>
#include <vector>

namespace troupe::launch {

/// What an agent must know to join a run, as a line of text on its standard input or in a file,
/// which no other user of either machine can read.
struct Invitation {
  std::string host;     ///< the name under which the run knows the agent's host
  std::string address;  ///< of the launcher
  int port = 0;
  std::string credentials;  ///< actors::Credentials of a host, as text
  std::string
      interface;      ///< the network interface to use; empty: that of the route to the launcher
  std::string ports;  ///< actors::AgentSpec::ports
  std::map<std::string, std::string> environment;  ///< variables for the host's workers
};
std::string to_line(const Invitation& invitation);
/// Throws Error{usage} for a line that to_line did not make.
Invitation parse_invitation(const std::string& line);

}  // namespace troupe::launch
