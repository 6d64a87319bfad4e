#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "actors/monitors/hub.h"

namespace troupe::launch {

/// Looks closely at a live run for somebody who waits for what is found. Callable from any thread.
class RunProbe {
 public:
  static constexpr int kMostSteps = 20;

  /// `status` is the run's status, as `troupe status --json` prints it. The hub must outlive the
  /// probe.
  RunProbe(actors::Hub& hub, std::function<nlohmann::json()> status)
      : hub_(hub), status_(std::move(status)) {}

  /// The next steps, as `troupe trace` writes them. Throws Error{usage} for a number of steps that
  /// is not 1 to kMostSteps, Error{unavailable} if none was complete in time.
  nlohmann::json trace(std::int64_t steps) const;
  /// The next tensors of an edge, given as "0:1", in lines for people. Throws Error{usage} naming
  /// the edges there are if it is none of them, Error{unavailable} if none came in time.
  std::string tap(const std::string& edge, bool backward) const;

 private:
  actors::Hub& hub_;
  const std::function<nlohmann::json()> status_;
};

}  // namespace troupe::launch
