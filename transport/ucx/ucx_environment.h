#pragma once

#include <string>

namespace troupe::transport {

inline constexpr const char* kPortRange = "UCX_TCP_PORT_RANGE";

/// What the user's environment says of UCX, as far as it decides what a node sets itself. UCX reads
/// all UCX_* variables; a node adds settings only for what is not in them.
struct UcxEnvironment {
  std::string transports;                 ///< UCX_TLS; empty: unset, every transport may be used
  bool has_devices = false;               ///< UCX_NET_DEVICES is set
  bool has_rendezvous_threshold = false;  ///< UCX_RNDV_THRESH is set
  std::string device = "lo";              ///< the network interface, unless has_devices
  std::string address = "127.0.0.1";      ///< its address that nodes listen on
  std::string ports{};                    ///< UcxNetwork::ports, unless kPortRange is set

  /// Whether UCX may use shared memory.
  bool may_share_memory() const;
  /// Whether that may lie in /dev/shm: it does not unless the user asks for such a transport.
  bool may_use_dev_shm() const;
};

/// How the nodes of a process are reached by those of other hosts.
struct UcxNetwork {
  /// The network interface, by its name or a numeric address of it, which also chooses between IPv4
  /// and IPv6. A node listens on the interface's first address of that family, and on no other.
  /// Empty: loopback, as all nodes are on this host.
  std::string interface;
  std::string ports;  ///< "29600-29700": those that nodes listen on, each on one; empty: any
};

/// For a program's start, before there is a second thread: reads the environment, and makes the
/// settings that UCX knows for a whole process only; NCCL, which reads the environment later, is
/// told the same network interface. What the user has set stays, but for one that failure handling
/// depends on. Throws Error{unavailable} as find_interface().
UcxEnvironment prepare_ucx(const UcxNetwork& network = {});

/// The version of the UCX that the program has found, as "1.13.1".
std::string ucx_version();

}  // namespace troupe::transport
