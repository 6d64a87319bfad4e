#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/protocol/protocol_events.h"
#include "actors/topology/run_spec.h"

namespace troupe::actors {

inline constexpr std::chrono::milliseconds kLivenessTick{250};
/// The time that a worker has to start and join, or to halt, in seconds.
inline constexpr double kJoinDeadline = 60;
/// The time that a worker may be silent while it uses processor time, in seconds.
inline constexpr double kStarvedDeadline = 30;

/// Judges from heartbeats which workers are silent or hang. It has no clock, but counts its owner's
/// ticks, so that no worker is judged wrongly when the machine sleeps or the launcher is stopped.
class Liveness {
 public:
  /// Whether the host of a worker gives signs of life. While it does not, its workers cannot be
  /// heard either, and nothing is counted against them: the host is lost soon, with all of them, or
  /// is heard again, and so are they. Empty: all hosts do.
  using HearsHost = std::function<bool(std::uint64_t incarnation)>;
  /// The processor time that a worker has used so far, in seconds. Who says nothing and still uses
  /// some is not stuck, but waits for a processor that others want, and has kStarvedDeadline.
  /// Empty: not known.
  using CpuSeconds = std::function<double(std::uint64_t incarnation)>;

  explicit Liveness(const RunSpec::Recovery& limits, HearsHost hears_host = {},
                    CpuSeconds cpu_seconds = {})
      : limits_(limits), hears_host_(std::move(hears_host)), cpu_seconds_(std::move(cpu_seconds)) {}

  void watch(std::uint64_t incarnation) {
    expected_.erase(incarnation);
    watched_[incarnation] = {};
  }
  /// Begins to watch a worker that was spawned; watch() follows when it joins.
  void expect(std::uint64_t incarnation) { expected_[incarnation] = {}; }
  /// The incarnations of workers that were spawned and have not joined yet.
  std::vector<std::uint64_t> expected() const;
  /// Notes the processor time that an expected worker has used so far. Before it joins it sends no
  /// heartbeats, so it counts as silent while its processor time stands still.
  void worked(std::uint64_t incarnation, double cpu_s);
  void forget(std::uint64_t incarnation) {
    expected_.erase(incarnation);
    watched_.erase(incarnation);
  }
  void forget_all() {
    expected_.clear();
    watched_.clear();
  }
  void on_heartbeat(const Heartbeat& beat);

  /// The workers whose time is up, each returned once, with a message such as "silence: no sign of
  /// life for 3 s". They failed when they gave the last sign of life, or of progress. To be called
  /// every kLivenessTick; `now_s` is the time of the monotonic clock.
  std::vector<WorkerFailed> tick(double now_s);

 private:
  struct Watched {
    double silent_s = 0;   ///< time without a heartbeat, as far as it counts
    double starved_s = 0;  ///< and as far as it does not
    double cpu_s = 0;      ///< what it had used when half of the silence that is allowed was over
    double stuck_s = 0;    ///< time without progress while it computes
    std::uint64_t progress = 0;
    double longest_action_s = 0;
    std::string state;
  };
  bool hears_host(std::uint64_t incarnation) const {
    return !hears_host_ || hears_host_(incarnation);
  }

  /// Counts a tick of silence. Returns whether it has lasted too long.
  bool is_silent(std::uint64_t incarnation, Watched& worker) const;

  RunSpec::Recovery limits_;
  HearsHost hears_host_;
  CpuSeconds cpu_seconds_;
  std::map<std::uint64_t, Watched> watched_;
  struct Expected {
    double waited_s = 0;  ///< time since it was spawned
    double silent_s = 0;
    double cpu_s = 0;
  };
  std::map<std::uint64_t, Expected> expected_;
};

}  // namespace troupe::actors
