#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>

#include "actors/security/tls.h"
#include "launch/control/control_protocol.h"
#include "launch/run/json_fields.h"
#include "launch/run/outcome.h"

namespace troupe::launch {

/// The address and token of a run's control socket, as in control.json.
struct ControlAddress {
  std::string host;
  int port = 0;
  std::string token;
  int pid = 0;
  // How commands on other hosts reach it over TLS; empty if the run is of one machine.
  std::string on = {};       ///< name of the host whose loopback `host` is
  std::string address = {};  ///< numeric
  int secure_port = 0;
  std::string credentials = {};  ///< of a command (actors/security/credentials.h)
};
TROUPE_JSON_FIELDS(ControlAddress, x.host, x.port, x.token, x.pid, unless_empty(x.on),
                   unless_empty(x.address), unless_empty(x.secure_port),
                   unless_empty(x.credentials))
/// The address in a run directory's control.json; none if the file does not exist or is incomplete.
std::optional<ControlAddress> read_control(const std::filesystem::path& run);

/// How long a command waits for a launcher that has accepted its request.
inline constexpr std::chrono::seconds kReplyPatience{10};

/// A connection that carries one request.
class ControlClient {
 public:
  /// Connects and sends the request, with `fields` beside its name. Throws Error{unavailable}
  /// naming the process if nothing accepts the connection within `patience`.
  ControlClient(const ControlAddress& address, const std::string& request,
                const nlohmann::json& fields = nlohmann::json::object(),
                std::chrono::milliseconds patience = kReplyPatience);
  ControlClient(const ControlClient&) = delete;

  /// A timeout that never comes.
  static constexpr std::chrono::milliseconds kForEver{0};
  /// The next frame; none if the other side has closed the connection. Throws Error{unavailable} at
  /// the timeout.
  std::optional<nlohmann::json> receive(std::chrono::milliseconds timeout);
  /// A frame that has arrived already; none if no whole frame has. `closed` becomes true if no more
  /// frames will come. For callers that poll fd() themselves.
  std::optional<nlohmann::json> try_receive(bool& closed);
  /// Sends a small frame that belongs to the request, such as a grant of credit. Returns false if
  /// the other side has closed the connection.
  bool send(const nlohmann::json& frame);
  int fd() const { return link_.socket.fd(); }

 private:
  std::optional<nlohmann::json> next_frame();
  bool read_some();

  const ControlAddress address_;
  actors::Link link_;
  FrameReader in_{kMaxReplyBytes};
};

/// Sends a request, with `fields` beside its name, to the launcher that owns a run directory.
/// Returns the open request, or how the run ended if it has no launcher any more. Throws
/// Error{data} if the directory holds no run, Error{unavailable} if its launcher does not answer.
std::variant<std::unique_ptr<ControlClient>, Ending> ask_run(
    const std::filesystem::path& run, const std::string& request,
    const nlohmann::json& fields = nlohmann::json::object());

/// How a run ended whose launcher closed the connection without a reply. Throws Error{unavailable}
/// if the run is still going on: then its launcher did not accept the token.
Ending ended_unanswered(const std::filesystem::path& run);

}  // namespace troupe::launch
