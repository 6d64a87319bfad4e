#pragma once

#include <cstdint>
#include <optional>

namespace troupe::actors {

/// When a cluster that is smaller than it was meant to be grows back: once hosts that have joined
/// have stood for a while, and not soon after the time before.
class GrowClock {
 public:
  /// A host that joins must stand for so long, in seconds.
  static constexpr double kStanding = 10;
  /// The least time between two attempts, in seconds.
  static constexpr double kInterval = 300;

  /// The number of a new timer, which replaces the one before.
  std::uint64_t start() { return ++timer_; }
  /// Notes that a timer has run out. The seconds for which another is to be started, 0 if the
  /// cluster may grow now; none if the timer was replaced.
  std::optional<double> rang(std::uint64_t timer, double now_s) {
    if (timer != timer_) return std::nullopt;
    if (last_s_ && now_s - *last_s_ < kInterval) return kInterval - (now_s - *last_s_);
    rang_s_ = now_s;
    is_due_ = true;
    return 0;
  }
  /// Whether the cluster may grow. It is asked once.
  bool take_due() { return is_due_ && !(is_due_ = false); }
  /// Notes that it does.
  void grows() { last_s_ = rang_s_; }

 private:
  std::uint64_t timer_ = 0;
  bool is_due_ = false;
  double rang_s_ = 0;             // when the newest timer ran out
  std::optional<double> last_s_;  // when the cluster last began to grow
};

}  // namespace troupe::actors
