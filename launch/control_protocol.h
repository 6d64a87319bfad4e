#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "actors/reports.h"

namespace troupe::launch {

// The control socket of a run: loopback TCP, where control.json says. Both sides send frames: a
// length of four bytes, little-endian, then that many bytes of JSON. A connection carries one
// request:
//   {"token": "...", "request": "status"}  ->  the run's status
//   {"token": "...", "request": "stop"}    ->  {"accepted": true}, and when the run has ended
//   {"ended": outcome}
// A first frame that is too long, no JSON or without the token closes the connection without a
// word.

/// Largest frame that a server reads, and that a client reads.
inline constexpr std::size_t kMaxRequestBytes = 64 * 1024;
inline constexpr std::size_t kMaxReplyBytes = 4 * 1024 * 1024;

std::string to_frame(const nlohmann::json& json);

/// Takes frames out of a stream of bytes, whatever the pieces it arrives in.
class FrameReader {
 public:
  explicit FrameReader(std::size_t max_bytes) : max_bytes_(max_bytes) {}
  void add(std::string_view bytes) { buffer_.append(bytes); }
  /// The next whole frame's text; none before it is complete, or once broken().
  std::optional<std::string> next();
  /// Whether a frame claimed a length of zero or above the maximum.
  bool broken() const { return broken_; }

 private:
  std::size_t max_bytes_;
  std::string buffer_;
  bool broken_ = false;
};

/// A request's name, if the frame carries the token; none for all else.
std::optional<std::string> authenticated_request(const std::string& frame,
                                                 const std::string& token);

/// {run, state, step, epoch, ranks: [{rank, replica, stage, shard, pid, host, state,
/// waiting_for}]}.
nlohmann::json to_json(const actors::RunStatus& status, const std::string& run);

}  // namespace troupe::launch
