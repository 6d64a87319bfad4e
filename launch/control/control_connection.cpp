#include "launch/control/control_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace troupe::launch {

ControlConnection::~ControlConnection() {
  close(fd_);
}

short ControlConnection::wanted_events() const {
  if (out_.empty()) return POLLIN;
  return static_cast<short>(feed ? POLLIN | POLLOUT : POLLOUT);
}

bool ControlConnection::read() {
  std::array<char, 4096> bytes;
  const ssize_t got = recv(fd_, bytes.data(), bytes.size(), 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  in_.add({bytes.data(), static_cast<std::size_t>(got)});
  return got > 0;
}

bool ControlConnection::write() {
  const ssize_t put = send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL);
  if (put < 0) return errno == EAGAIN || errno == EINTR;
  out_.erase(0, static_cast<std::size_t>(put));
  return true;
}

bool ControlConnection::feed_events(EventTexts& texts) {
  while (out_.empty()) {
    out_ = feed->next_frame(texts);
    if (out_.empty()) return true;
    if (!write()) return false;
  }
  return true;
}

}  // namespace troupe::launch
