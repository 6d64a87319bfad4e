#include "launch/control_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "actors/secret.h"
#include "tensor/error.h"

namespace troupe::launch {

struct ControlServer::Connection {
  int fd = -1;
  FrameReader in{kMaxRequestBytes};
  std::string out;
  bool trusted = false;  ///< has shown the token
  bool waits_for_end = false;
  Clock::time_point deadline;

  Connection(int socket, Clock::time_point until) : fd(socket), deadline(until) {}
  Connection(const Connection&) = delete;
  ~Connection() { close(fd); }
};

namespace {

[[noreturn]] void os_error(const char* what) {
  throw Error(ErrorKind::unavailable,
              fmt::format("control socket: cannot {}: {}", what, std::strerror(errno)));
}

int bind_loopback(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) os_error("make a socket");
  // A port whose last connections are still fading is free.
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      listen(fd, 16) == 0)
    return fd;
  const int code = errno;
  close(fd);
  throw Error(
      ErrorKind::manifest,
      fmt::format("cluster.port = {} cannot be used on 127.0.0.1: {}; 0 takes any free port", port,
                  std::strerror(code)));
}

int port_of(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    os_error("learn its port");
  return ntohs(address.sin_port);
}

}  // namespace

ControlServer::ControlServer(const Options& options)
    : options_(options), token_(actors::random_token()), listen_fd_(bind_loopback(options.port)) {
  port_ = port_of(listen_fd_);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd_ < 0) os_error("make an event descriptor");
}

ControlServer::~ControlServer() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      quit_ = true;
    }
    wake();
    thread_.join();
  }
  close(listen_fd_);
  close(wake_fd_);
}

void ControlServer::serve(ControlHandlers handlers) {
  handlers_ = std::move(handlers);
  thread_ = std::thread([this] { loop(); });
}

void ControlServer::finish(const nlohmann::json& outcome) {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    outcome_ = outcome;
  }
  wake();
  thread_.join();
}

void ControlServer::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written =
      write(wake_fd_, &one, sizeof one);  // full means: already awake
}

void ControlServer::loop() {
  while (true) {
    tell_outcome();
    {
      const std::lock_guard lock(mutex_);
      if (quit_) break;
    }
    if (finishing_ && connections_.empty()) break;
    std::vector<pollfd> fds = watched();
    const bool timed =
        std::ranges::any_of(connections_, [](const Connection& c) { return !c.waits_for_end; });
    poll(fds.data(), fds.size(), timed ? 100 : -1);
    std::uint64_t count = 0;
    [[maybe_unused]] const auto drained = read(wake_fd_, &count, sizeof count);
    std::size_t index = 2;
    std::erase_if(connections_, [&](Connection& c) {
      return !serve_ready(c, fds[index++].revents) || expired(c);
    });
    if (fds[1].revents != 0) accept_all();
  }
  connections_.clear();
}

std::vector<pollfd> ControlServer::watched() const {
  std::vector<pollfd> fds{{.fd = wake_fd_, .events = POLLIN, .revents = 0},
                          {.fd = finishing_ ? -1 : listen_fd_, .events = POLLIN, .revents = 0}};
  for (const Connection& c : connections_)
    fds.push_back(
        {.fd = c.fd, .events = static_cast<short>(c.out.empty() ? POLLIN : POLLOUT), .revents = 0});
  return fds;
}

/// Turns the outcome into the last frame of those who wait for it; the others have no answer to
/// come.
void ControlServer::tell_outcome() {
  const std::lock_guard lock(mutex_);
  if (!outcome_ || finishing_) return;
  finishing_ = true;
  for (Connection& c : connections_) {
    if (c.waits_for_end) c.out += to_frame({{"ended", *outcome_}});
    c.waits_for_end = false;
    c.deadline = Clock::now() + options_.patience;
  }
  std::erase_if(connections_, [](const Connection& c) { return c.out.empty(); });
}

void ControlServer::accept_all() {
  while (true) {
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    make_room();
    connections_.emplace_back(fd, Clock::now() + options_.patience);
  }
}

/// The oldest stranger leaves first: whoever knows the token shows it at once.
void ControlServer::make_room() {
  if (connections_.size() < options_.max_connections) return;
  const auto stranger =
      std::ranges::find_if(connections_, [](const Connection& c) { return !c.trusted; });
  connections_.erase(stranger != connections_.end() ? stranger : connections_.begin());
}

bool ControlServer::expired(const Connection& c) const {
  return !c.waits_for_end && Clock::now() > c.deadline;
}

/// False when the connection is over.
bool ControlServer::serve_ready(Connection& c, short events) {
  if ((events & POLLIN) != 0 && !read_request(c)) return false;
  if ((events & (POLLERR | POLLNVAL)) != 0) return false;
  if ((events & POLLHUP) != 0 && (events & POLLIN) == 0) return false;
  return c.out.empty() || write_reply(c);
}

bool ControlServer::read_request(Connection& c) {
  std::array<char, 4096> bytes;
  const ssize_t got = recv(c.fd, bytes.data(), bytes.size(), 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0 || c.trusted) return false;  // one request a connection
  c.in.add({bytes.data(), static_cast<std::size_t>(got)});
  const auto frame = c.in.next();
  if (frame) return answer(c, *frame);
  return !c.in.broken();
}

bool ControlServer::answer(Connection& c, const std::string& frame) {
  const auto request = authenticated_request(frame, token_);
  if (!request) return false;
  c.trusted = true;
  c.deadline = Clock::now() + options_.patience;
  if (*request == "status") {
    c.out = to_frame(handlers_.status());
  } else if (*request == "stop") {
    c.waits_for_end = true;
    c.out = to_frame({{"accepted", true}});
    handlers_.stop();
  } else {
    c.out = to_frame({{"error", "unknown request; it is status or stop"}});
  }
  return true;
}

bool ControlServer::write_reply(Connection& c) {
  const ssize_t put = send(c.fd, c.out.data(), c.out.size(), MSG_NOSIGNAL);
  if (put < 0) return errno == EAGAIN || errno == EINTR;
  c.out.erase(0, static_cast<std::size_t>(put));
  return !c.out.empty() || c.waits_for_end;
}

}  // namespace troupe::launch
