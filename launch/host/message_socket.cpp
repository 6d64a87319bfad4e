#include "launch/host/message_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tensor/errors/error.h"
#include "tensor/errors/shortage.h"

namespace troupe::launch {
namespace {

bool write_all(int fd, const void* data, std::size_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool read_all(int fd, void* data, std::size_t size) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = recv(fd, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

MessageSocket::~MessageSocket() {
  if (fd_ >= 0) close(fd_);
}

void MessageSocket::write(const nlohmann::json& value) {
  const std::vector<std::uint8_t> bytes = nlohmann::json::to_msgpack(value);
  const std::uint64_t size = bytes.size();
  if (write_all(fd_, &size, sizeof size)) write_all(fd_, bytes.data(), bytes.size());
}

std::optional<nlohmann::json> MessageSocket::read() {
  std::uint64_t size = 0;
  if (!read_all(fd_, &size, sizeof size)) return std::nullopt;
  std::vector<std::uint8_t> bytes(size);
  if (!read_all(fd_, bytes.data(), bytes.size())) return std::nullopt;
  return nlohmann::json::from_msgpack(bytes);
}

void MessageSocket::finish() {
  shutdown(fd_, SHUT_WR);
}

std::pair<MessageSocket, MessageSocket> make_message_sockets() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    const int code = errno;
    const std::string lacks = shortage(code);
    throw Error(ErrorKind::unavailable,
                "cannot connect two processes: " + (lacks.empty() ? std::strerror(code) : lacks));
  }
  return {MessageSocket(ends[0]), MessageSocket(ends[1])};
}

}  // namespace troupe::launch
