#include "actors/agent/probe_port.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "actors/messages/secret.h"
#include "tensor/errors/error.h"
#include "transport/ucx/network_interface.h"

namespace troupe::actors {
namespace {

using Clock = std::chrono::steady_clock;

/// Callers at a time. One more takes the place of the one that has been silent for longest.
constexpr std::size_t kMostCallers = 256;
/// After a caller that could not be let in.
constexpr int kPauseMs = 100;

/// Somebody who has connected.
class Caller {
 public:
  Caller(Socket socket, const std::string& secret) : socket_(std::move(socket)), secret_(&secret) {}

  int fd() const { return socket_.fd(); }
  Clock::time_point heard() const { return heard_; }
  /// Reads what has come, and answers. False if the caller is gone, or is to be.
  bool serve();

 private:
  bool take(std::span<const char> bytes);
  bool take_word();
  bool answer();

  Socket socket_;
  const std::string* secret_;
  Clock::time_point heard_ = Clock::now();
  bool is_known_ = false;    ///< it has sent the secret
  std::string word_;         ///< what has come of the secret, or of a message's head
  std::size_t payload_ = 0;  ///< bytes of a message that are still to come
};

bool Caller::serve() {
  std::array<char, 1 << 16> buffer;  // not filled with zeros, which would take a caller's time
  while (true) {
    const ssize_t got = recv(fd(), buffer.data(), buffer.size(), 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0 || !take({buffer.data(), static_cast<std::size_t>(got)})) return false;
    heard_ = Clock::now();
  }
}

bool Caller::take(std::span<const char> bytes) {
  while (!bytes.empty()) {
    if (payload_ > 0) {
      const std::size_t some = std::min(payload_, bytes.size());
      payload_ -= some;
      bytes = bytes.subspan(some);
      if (payload_ == 0 && !answer()) return false;
      continue;
    }
    const std::size_t whole = is_known_ ? kProbeHeadBytes : secret_->size();
    const std::size_t some = std::min(whole - word_.size(), bytes.size());
    word_.append(bytes.data(), some);
    bytes = bytes.subspan(some);
    if (word_.size() == whole && !take_word()) return false;
  }
  return true;
}

/// Takes the secret, or the head of a message.
bool Caller::take_word() {
  const std::string word = std::exchange(word_, {});
  if (!is_known_) return is_known_ = equal_secrets(word, *secret_);
  std::uint32_t bytes = 0;
  for (const char c : word) bytes = bytes << 8 | static_cast<unsigned char>(c);
  if (bytes > kMostProbeBytes) return false;
  payload_ = bytes;
  return bytes > 0 || answer();
}

/// A caller that does not take its answers is cut off.
bool Caller::answer() {
  const auto now = static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count());
  std::array<char, kProbeAnswerBytes> text;
  for (std::size_t i = 0; i < text.size(); ++i)
    text[i] = static_cast<char>(now >> (8 * (text.size() - 1 - i)));
  return send(fd(), text.data(), text.size(), MSG_NOSIGNAL) == std::ssize(text);
}

}  // namespace

ProbePort::ProbePort(const std::string& address, const std::string& ports, std::string secret)
    : secret_(std::move(secret)),
      listener_(listen_on(address, transport::parse_ports(ports).value_or(transport::PortRange{}))),
      port_(port_of(listener_)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_.fd() < 0)
    throw Error(ErrorKind::unavailable, std::string("a probe port: ") + std::strerror(errno));
  thread_ = std::thread([this] { serve(); });
}

ProbePort::~ProbePort() {
  eventfd_write(wake_.fd(), 1);
  thread_.join();
}

void ProbePort::serve() {
  std::vector<Caller> callers;
  while (true) {
    std::vector<pollfd> ready{{.fd = wake_.fd(), .events = POLLIN, .revents = 0},
                              {.fd = listener_.fd(), .events = POLLIN, .revents = 0}};
    for (const Caller& caller : callers)
      ready.push_back({.fd = caller.fd(), .events = POLLIN, .revents = 0});
    poll(ready.data(), ready.size(), -1);
    if (ready[0].revents != 0) return;
    std::vector<Caller> stay;
    for (std::size_t i = 0; i < callers.size(); ++i)
      if (ready[i + 2].revents == 0 || callers[i].serve()) stay.push_back(std::move(callers[i]));
    callers = std::move(stay);
    if (ready[1].revents == 0) continue;
    Socket caller(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (caller.fd() < 0) {
      poll(ready.data(), 1,
           kPauseMs);  // for want of descriptors, say, which asking again does not give
      continue;
    }
    if (callers.size() == kMostCallers)
      callers.erase(std::ranges::min_element(callers, {}, &Caller::heard));
    callers.emplace_back(std::move(caller), secret_);
  }
}

}  // namespace troupe::actors
