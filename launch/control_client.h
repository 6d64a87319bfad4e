#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "launch/control_protocol.h"

namespace troupe::launch {

/// Where a run's control socket is and what opens it, as control.json says.
struct ControlAddress {
  std::string host;
  int port = 0;
  std::string token;
  int pid = 0;
};
nlohmann::json to_json(const ControlAddress& address);
/// The address in a run directory's control.json; none if there is no such file or it is not whole.
std::optional<ControlAddress> read_control(const std::filesystem::path& run);

/// A connection that carries one request.
class ControlClient {
 public:
  /// Connects and sends the request. Throws Error{unavailable} naming the process if nobody answers
  /// there.
  ControlClient(const ControlAddress& address, const std::string& request);
  ControlClient(const ControlClient&) = delete;
  ~ControlClient();

  /// The next frame; none if the other side has closed. Zero waits for ever. Throws
  /// Error{unavailable} at the timeout.
  std::optional<nlohmann::json> receive(std::chrono::milliseconds timeout);

 private:
  const ControlAddress address_;
  int fd_ = -1;
  FrameReader in_{kMaxReplyBytes};
};

}  // namespace troupe::launch
