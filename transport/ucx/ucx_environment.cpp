#include "transport/ucx/ucx_environment.h"

#include <fmt/format.h>
#include <ucp/api/ucp.h>
#include <ucs/debug/debug.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "transport/ucx/network_interface.h"

namespace troupe::transport {
namespace {

/// Size of UCX's TCP segments. Its default, 8 KiB, more than halves the bandwidth if nothing is
/// sent in place, as UcxWorker has it.
constexpr const char* kTcpSegment = "64k";

/// The words of UCX_TLS.
struct TransportNames {
  std::vector<std::string> names;
  bool has(const char* name) const { return std::ranges::find(names, name) != names.end(); }
  /// Whether one stands for all transports over shared memory.
  bool has_shared() const { return has("shm") || has("sm") || has("mm"); }
};
struct Transports {
  TransportNames names;
  bool excludes = false;  ///< whether all others may be used
};

Transports parse_transports(const std::string& list) {
  Transports parsed{.names = {}, .excludes = list.starts_with('^')};
  std::istringstream text(list.substr(parsed.excludes ? 1 : 0));
  for (std::string item; std::getline(text, item, ',');) parsed.names.names.push_back(item);
  return parsed;
}

/// Makes the settings for connections to other hosts.
void use_interface(const NetworkInterface& interface) {
  ::setenv("UCX_TCP_AF_PRIO", interface.is_ipv6() ? "inet6,inet" : "inet,inet6", 0);
  // Else a call waits, with a node's lock, until the system gives up a host that does not answer,
  // which takes it more than a minute.
  ::setenv("UCX_TCP_CONN_NB", "y", 1);
  // UCX's own look whether peers are alive ends nothing that runs, and data that it leaves
  // unacknowledged keeps TCP's from ending what is idle. Who uses a node tells it of lost peers.
  ::setenv("UCX_KEEPALIVE_INTERVAL", "inf", 0);
}

}  // namespace

bool UcxEnvironment::may_share_memory() const {
  if (transports.empty()) return true;
  const auto [names, excludes] = parse_transports(transports);
  if (excludes) return !names.has_shared() && !(names.has("posix") && names.has("sysv"));
  return names.has_shared() || names.has("all") || names.has("posix") || names.has("sysv");
}

bool UcxEnvironment::may_use_dev_shm() const {
  if (transports.empty()) return false;  // UcxWorker excludes it then
  const auto [names, excludes] = parse_transports(transports);
  if (excludes) return !names.has_shared() && !names.has("posix");
  return names.has_shared() || names.has("all") || names.has("posix");
}

UcxEnvironment prepare_ucx(const UcxNetwork& network) {
  UcxEnvironment environment{.has_devices = std::getenv("UCX_NET_DEVICES") != nullptr,
                             .has_rendezvous_threshold = std::getenv("UCX_RNDV_THRESH") != nullptr};
  if (const char* transports = std::getenv("UCX_TLS")) environment.transports = transports;
  // Set in the environment, because UCX 1.13 knows TCP's settings nowhere else.
  ::setenv("UCX_TCP_TX_SEG_SIZE", kTcpSegment, 0);
  if (!network.ports.empty() && !std::getenv(kPortRange)) {
    environment.ports = network.ports;
    ::setenv(kPortRange, network.ports.c_str(), 1);
  }
  if (!network.interface.empty()) {
    const NetworkInterface interface = find_interface(network.interface);
    environment.device = interface.name;
    environment.address = interface.address;
    use_interface(interface);
  }
  // NCCL's sockets would be on the first interface that is not loopback, which others may reach and
  // other hosts may not; "=" for this name alone.
  ::setenv("NCCL_SOCKET_IFNAME", ("=" + environment.device).c_str(), 0);
  // UCX takes over these signals when it is loaded, but the program reports its crashes itself.
  if (!std::getenv("UCX_HANDLE_ERRORS"))
    for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) ucs_debug_disable_signal(signal);
  return environment;
}

std::string ucx_version() {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace troupe::transport
