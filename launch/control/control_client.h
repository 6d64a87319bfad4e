#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "launch/control/control_protocol.h"

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
  /// Connects and sends the request, with `fields` beside its name. Throws Error{unavailable}
  /// naming the process if nobody answers there.
  ControlClient(const ControlAddress& address, const std::string& request,
                const nlohmann::json& fields = nlohmann::json::object());
  ControlClient(const ControlClient&) = delete;
  ~ControlClient();

  /// The next frame; none if the other side has closed. Zero waits for ever. Throws
  /// Error{unavailable} at the timeout.
  std::optional<nlohmann::json> receive(std::chrono::milliseconds timeout);
  /// A frame that is here already; none if there is no whole one. `closed` becomes true where none
  /// will come. For who waits on fd() himself.
  std::optional<nlohmann::json> try_receive(bool& closed);
  /// Sends a small frame that belongs to the request, as a grant of credit. False when the other
  /// side has closed.
  bool send(const nlohmann::json& frame);
  int fd() const { return fd_; }

 private:
  std::optional<nlohmann::json> next_frame();
  bool read_some(int flags);

  const ControlAddress address_;
  int fd_ = -1;
  FrameReader in_{kMaxReplyBytes};
};

}  // namespace troupe::launch
