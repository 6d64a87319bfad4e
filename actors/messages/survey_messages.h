#pragma once

#include <string>

// How the hosts of a run find out whether they reach each other.

namespace troupe::actors {

/// The port at which a host lets others try the way to it.
struct ProbeTarget {
  std::string host;     ///< its name
  std::string address;  ///< numeric, of IPv4 or IPv6
  int port = 0;
};

/// What a host has found of the way to another one.
struct LinkProbe {
  std::string host;          ///< the other one
  std::string to;            ///< address and port of it that were tried
  bool connected = false;    ///< whether a TCP connection was made
  std::string fault;         ///< what went wrong; empty: nothing
  double round_trip_s = 0;   ///< the shortest of some
  double bytes_per_s = 0;    ///< that it has taken; 0: not measured
  double clock_ahead_s = 0;  ///< its clock of the day, minus this host's
  double clock_error_s = 0;  ///< by how much that may be wrong, up or down
};

}  // namespace troupe::actors
