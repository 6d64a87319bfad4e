#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace troupe::actors {

/// Until when a run may have its hosts, and when it has to begin to leave them: so early that there
/// is time for a step, a change of the cluster and a checkpoint, each as long as the longest one so
/// far. It has no clock: times are those of its owner's monotonic clock, in seconds.
class TimeLimits {
 public:
  /// The least time for leaving a host, unless it was there for less than twice as long.
  static constexpr double kLeast = 60;
  /// Hosts whose times come so soon after each other are left together, because ranks that moved
  /// from one to the next would move for nothing.
  static constexpr double kTogether = 15;

  /// Notes at `now_s` that a host is taken away at `ends_s`; 0: no limit is known.
  void set(const std::string& host, double ends_s, double now_s);
  void took_step(double seconds) { step_s_ = std::max(step_s_, seconds); }
  void took_change(double seconds) { change_s_ = std::max(change_s_, seconds); }
  void took_save(double seconds) { save_s_ = std::max(save_s_, seconds); }

  /// The hosts that are to be left from now on, each returned once.
  std::vector<std::string> due(double now_s);

 private:
  struct Limit {
    double ends_s = 0;
    double most_s = 0;  ///< of its time that leaving it may take
  };
  double begins_s(const Limit& limit) const;

  std::map<std::string, Limit> limits_;
  double step_s_ = 0, change_s_ = 0, save_s_ = 0;
};

}  // namespace troupe::actors
