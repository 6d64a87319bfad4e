#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace troupe::launch {

/// One end of a connection to another process, by which the two send each other values, as
/// MessagePack, so that texts need not be UTF-8. Owns its descriptor. Used by one thread at a time,
/// but that one may write while another reads.
class MessageSocket {
 public:
  explicit MessageSocket(int fd) : fd_(fd) {}
  MessageSocket(MessageSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  MessageSocket& operator=(MessageSocket&&) = delete;
  ~MessageSocket();

  int fd() const { return fd_; }
  /// Blocks while the other end has not read what came before. Nothing is told of an end that is
  /// gone: read() tells that.
  void write(const nlohmann::json& value);
  /// Blocks until the next value is here. None: the other end is closed.
  std::optional<nlohmann::json> read();
  /// Tells the other end that nothing more will be written.
  void finish();

 private:
  int fd_ = -1;
};

/// Both ends of a new connection; a process that is started has neither unless it is given one.
/// Throws Error{unavailable} with the system's reason.
std::pair<MessageSocket, MessageSocket> make_message_sockets();

}  // namespace troupe::launch
