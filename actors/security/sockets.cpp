#include "actors/security/sockets.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

using Clock = std::chrono::steady_clock;
/// How often another free port is looked for where others take each one first.
constexpr int kTriesOfAnyPort = 100;

struct FreedAddresses {
  void operator()(addrinfo* all) const { freeaddrinfo(all); }
};
using Addresses = std::unique_ptr<addrinfo, FreedAddresses>;

std::string told(const std::string& host, int port, const std::string& why) {
  return fmt::format("{}: {}", address_text(host, port), why);
}

[[noreturn]] void unavailable(const std::string& host, int port, const std::string& why) {
  throw Error(ErrorKind::unavailable, told(host, port, why));
}

/// The addresses that a name has; none if `fault` says why.
Addresses find(const std::string& host, int port, int flags, std::string& fault) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) fault = code == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(code);
  return Addresses(code == 0 ? found : nullptr);
}

Socket open_for(const addrinfo& where) {
  return Socket(socket(where.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// The number of the error with which a connect has ended; 0: with none.
int connect_code(const Socket& socket) {
  int code = 0;
  socklen_t size = sizeof code;
  return getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &code, &size) == 0 ? code : errno;
}

/// Returns 0, or the error's number: EINPROGRESS if it goes on.
int connect_now(const Socket& socket, const addrinfo& to) {
  if (socket.fd() < 0) return errno;
  return connect(socket.fd(), to.ai_addr, to.ai_addrlen) == 0 ? 0 : errno;
}

/// Connects by the deadline. Returns 0, or the error's number.
int connect_by(const Socket& socket, const addrinfo& to, Clock::time_point deadline) {
  if (const int code = connect_now(socket, to); code != EINPROGRESS) return code;
  return wait_for(socket.fd(), POLLOUT, deadline) ? connect_code(socket) : ETIMEDOUT;
}

void send_at_once(const Socket& socket) {
  const int on = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

int Socket::release() {
  return std::exchange(fd_, -1);
}

std::string name_of_this_host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string host_text(const std::string& host) {
  return host.find(':') != host.npos ? "[" + host + "]" : host;
}

std::string address_text(const std::string& host, int port) {
  return fmt::format("{}:{}", host_text(host), port);
}

int free_port() {
  for (const std::string any : {"::", "0.0.0.0"}) {  // the first has those of IPv4, too
    std::string fault;
    const Addresses where = find(any, 0, AI_NUMERICHOST, fault);
    const Socket socket = where ? open_for(*where) : Socket();
    if (socket.fd() >= 0 && bind(socket.fd(), where->ai_addr, where->ai_addrlen) == 0)
      return port_of(socket);
  }
  unavailable("any address", 0, std::strerror(errno));
}

Socket listen_on(const std::string& address, transport::PortRange ports) {
  const bool any = ports.first == 0;
  for (int tries = 1;; ++tries) {
    const int port = any ? free_port() : ports.first++;
    std::string fault;
    const Addresses where = find(address, port, AI_NUMERICHOST, fault);
    if (!where) unavailable(address, port, fault);
    Socket socket = open_for(*where);
    // A port counts as free although its last connections are in TIME_WAIT.
    const int on = 1;
    if (socket.fd() >= 0 &&
        setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(socket.fd(), where->ai_addr, where->ai_addrlen) == 0 &&
        listen(socket.fd(), SOMAXCONN) == 0)
      return socket;
    // Any: another process may have taken it since.
    const bool tries_again = any ? tries < kTriesOfAnyPort : port < ports.last;
    if (errno != EADDRINUSE || !tries_again) unavailable(address, port, std::strerror(errno));
  }
}

int port_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw Error(ErrorKind::unavailable, fmt::format("a socket's port: {}", std::strerror(errno)));
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Connected try_connect(const std::string& host, int port, Clock::time_point deadline) {
  Connected made;
  const Addresses all = find(host, port, 0, made.fault);
  for (const addrinfo* one = all.get(); one; one = one->ai_next) {
    made.socket = open_for(*one);
    const int code = connect_by(made.socket, *one, deadline);
    made.fault = code == 0 ? "" : std::strerror(code);
    if (code != 0) continue;
    send_at_once(made.socket);
    break;
  }
  return made;
}

Connected begin_connect(const std::string& address, int port) {
  Connected made;
  const Addresses to = find(address, port, AI_NUMERICHOST, made.fault);
  if (!to) return made;
  made.socket = open_for(*to);
  const int code = connect_now(made.socket, *to);
  if (code != 0 && code != EINPROGRESS) made.fault = std::strerror(code);
  send_at_once(made.socket);
  return made;
}

std::string fault_of_connect(const Socket& socket) {
  const int code = connect_code(socket);
  return code == 0 ? "" : std::strerror(code);
}

Socket connect_to(const std::string& host, int port, Clock::time_point deadline) {
  Connected made = try_connect(host, port, deadline);
  if (!made.fault.empty()) throw Unreachable(ErrorKind::unavailable, told(host, port, made.fault));
  return std::move(made.socket);
}

bool wait_for(int fd, short events, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd ready{.fd = fd, .events = events, .revents = 0};
    constexpr std::int64_t kMost = std::numeric_limits<int>::max();
    if (poll(&ready, 1, static_cast<int>(std::min<std::int64_t>(left, kMost))) > 0) return true;
  }
}

}  // namespace troupe::actors
