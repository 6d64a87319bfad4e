#pragma once

#include <chrono>
#include <string>

#include "tensor/errors/error.h"
#include "transport/ucx/network_interface.h"

// Names of hosts, and TCP sockets of IPv4 and IPv6. Sockets are non-blocking, and closed in a
// process that is started.

namespace troupe::actors {

/// A descriptor, which is closed with its owner.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();
  int fd() const { return fd_; }
  int release();

 private:
  int fd_ = -1;
};

std::string name_of_this_host();
/// A host as it stands before ":PORT": "[fe80::1]" for an address of IPv6, others as they are.
std::string host_text(const std::string& host);
/// "10.0.0.1:80", "[fe80::1]:80".
std::string address_text(const std::string& host, int port);
/// A port that nobody on this host has, at any of its addresses. Throws Error{unavailable}.
int free_port();
/// Listens on a numeric address of this machine, at the first of the ports that is free; port 0:
/// any that is free at all addresses. Throws Error{unavailable} naming it.
Socket listen_on(const std::string& address, transport::PortRange ports);
int port_of(const Socket& socket);
/// A socket, or why there is none.
struct Connected {
  Socket socket;
  std::string fault;
};
/// Connects to a name or a numeric address; of several that a name has, to the first that answers
/// by the deadline.
Connected try_connect(const std::string& host, int port,
                      std::chrono::steady_clock::time_point deadline);
/// Begins to connect to a numeric address: the socket is ready for POLLOUT once it has connected,
/// or has not.
Connected begin_connect(const std::string& address, int port);
/// Why a socket that was ready has not connected; empty: it has.
std::string fault_of_connect(const Socket& socket);
/// Nobody answers at an address, or its name is not known: maybe not yet.
struct Unreachable : Error {
  using Error::Error;
};
/// Throws Unreachable naming the address and the fault.
Socket connect_to(const std::string& host, int port,
                  std::chrono::steady_clock::time_point deadline);
/// Waits for events of poll(). Returns false at the deadline.
bool wait_for(int fd, short events, std::chrono::steady_clock::time_point deadline);

}  // namespace troupe::actors
