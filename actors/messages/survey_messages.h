#pragma once

#include <cstdint>
#include <string>
#include <vector>

// How the hosts of a run find out what they are, and whether they reach each other. In a survey the
// launcher has each host open a port, then has the hosts try the ways to each other's.

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

/// What a host is, as far as its agent's first message does not tell.
struct HostFacts {
  std::string interface;          ///< the network interface of its address
  int free_ports = -1;            ///< of cluster.ports, up to kMostPorts; -1: it has no such range
  std::int64_t shm_bytes = 0;     ///< size of /dev/shm; 0: there is none
  bool needs_shm = false;         ///< whether its settings of UCX have messages go through /dev/shm
  std::int64_t locked_bytes = 0;  ///< that a process may lock in memory; -1: any
  double flops = 0;               ///< of matrix products on one core, in a second
  static constexpr int kMostPorts = 1024;
};

/// The order to open a port, which others find with HostSurveyed.
struct SurveyBegun {
  std::uint64_t survey = 0;  ///< number; a host takes part in the newest one alone
  std::string secret;        ///< that who tries the way sends
  std::string ports;         ///< cluster.ports
  bool looks = false;        ///< whether to tell of the host, too
};
struct HostSurveyed {
  std::uint64_t survey = 0;
  int port = 0;
  std::string fault;  ///< why there is no port; empty: there is one
  HostFacts facts;    ///< if it was asked for them
};

/// The order to try the ways to these hosts, and what came of it, in the same order.
struct ProbeLinks {
  std::uint64_t survey = 0;
  std::vector<ProbeTarget> targets;
  double patience_s = 0;  ///< a way on which nothing moves for so long is broken
  bool measures = false;  ///< ProbeManner::measures
};
struct LinksProbed {
  std::uint64_t survey = 0;
  std::vector<LinkProbe> links;
};

/// The order to close the port.
struct SurveyEnded {
  std::uint64_t survey = 0;
};

}  // namespace troupe::actors
