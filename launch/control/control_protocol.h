#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::launch {

// The control socket of a run: loopback TCP, at the host and port in control.json, and for other
// hosts of the run TLS, at the address and port there. Both sides send
// frames: a length of four bytes, little-endian, then that many bytes of JSON. A connection carries
// one request:
//   {"token": "...", "request": "status"}  ->  the run's status
//   {"token": "...", "request": "stop"}  ->  {"accepted": true}, then {"ended": outcome} when the
//     run has ended
//   {"token": "...", "request": "scale", "pp": 3, ...}  ->  {"code": 0, "text": what it cost} when
//     the change is done; if it fails, the exit code and the reason
//   {"token": "...", "request": "save"}  ->  {"code": 0, "step": 12} when the checkpoint of that
//   step
//     is complete; if there is none, {"code": exit code, "text": the reason}
//   {"token": "...", "request": "attach", "kinds": "step,failure", "credit": 16, "who": "..."}, for
//     tensors also with "tap" (launch/control/tap_request.h)  ->  {"attached": status}, then one
//     {"events": [...], "dropped": n} for each credit that the reader grants, with its request or
//     later with {"credit": n}, and {"ended": outcome} when the run has ended
// A request that cannot be served is answered by {"error": "..."}. If the first frame is too long,
// is not JSON or lacks the token, the connection is closed without an answer.

/// The largest frame that a server reads (a request), and that a client reads (a reply).
inline constexpr std::size_t kMaxRequestBytes = 64 * 1024;
inline constexpr std::size_t kMaxReplyBytes = 4 * 1024 * 1024;

/// JSON text in one line. Text from outside may be in it, so bytes that are not UTF-8 are replaced
/// instead of causing an exception.
std::string to_text(const nlohmann::json& json);
std::string to_frame(std::string_view text);
std::string to_frame(const nlohmann::json& json);

/// Extracts frames from a stream of bytes that arrives in arbitrary pieces.
class FrameReader {
 public:
  explicit FrameReader(std::size_t max_bytes) : max_bytes_(max_bytes) {}
  void add(std::string_view bytes) { buffer_.append(bytes); }
  /// The text of the next frame; none until it is complete, and none once broken().
  std::optional<std::string> next();
  /// Whether a frame had a length of zero or above the maximum.
  bool broken() const { return broken_; }

 private:
  std::size_t max_bytes_;
  std::string buffer_;
  bool broken_ = false;
};

/// The request in a frame that carries the token and whose "request" is a text; none for any other
/// frame.
std::optional<nlohmann::json> authenticated_request(const std::string& frame,
                                                    const std::string& token);

}  // namespace troupe::launch
