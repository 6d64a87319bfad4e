#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "actors/topology/reports.h"

namespace troupe::launch {

// The control socket of a run: loopback TCP, where control.json says. Both sides send frames: a
// length of four bytes, little-endian, then that many bytes of JSON. A connection carries one
// request:
//   {"token": "...", "request": "status"}  ->  the run's status
//   {"token": "...", "request": "stop"}    ->  {"accepted": true}, and when the run has ended
//   {"ended": outcome}
//   {"token": "...", "request": "scale", "pp": 3, ...}  ->  {"code": 0, "text": what it cost} when
//   the change is done, or with the exit code and the reason why not
//   {"token": "...", "request": "attach", "kinds": "step,failure", "credit": 16, "who": "..."}  ->
//   (for tensors also "tap": what launch/control/tap_request.h has)
//   {"attached": status}, then {"events": [...], "dropped": n} for each frame that the reader has
//   granted, by its request and by {"credit": n} later on, and at the end {"ended": outcome}
// What cannot be done is answered by {"error": "..."}. A first frame that is too long, no JSON or
// without the token closes the connection without an answer.

/// Largest frame that a server reads, and that a client reads.
inline constexpr std::size_t kMaxRequestBytes = 64 * 1024;
inline constexpr std::size_t kMaxReplyBytes = 4 * 1024 * 1024;

/// In one line. Text from outside may be in it: what is no UTF-8 is replaced, not thrown at.
std::string to_text(const nlohmann::json& json);
std::string to_frame(std::string_view text);
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

/// A request, whose "request" is a text, if the frame carries the token; none for all else.
std::optional<nlohmann::json> authenticated_request(const std::string& frame,
                                                    const std::string& token);

/// {pp, dp, stage_of_chunk: [...], copies, microbatches}.
nlohmann::json to_json(const actors::Pipeline& pipeline);
/// {run, state, step, max_steps, epoch, refused, pipeline, progress, resident_bytes, ranks: [{rank,
/// replica, stage, shard, pid, host, state, waiting_for, resident_bytes}]}.
nlohmann::json to_json(const actors::RunStatus& status, const std::string& run);

}  // namespace troupe::launch
