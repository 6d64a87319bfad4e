#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/topology/run_spec.h"

namespace troupe::actors {

inline constexpr std::chrono::milliseconds kLivenessTick{250};
/// For a worker to start and join, for one to drop what it does, in seconds.
inline constexpr double kJoinDeadline = 60;

/// Judges from heartbeats who has gone silent or hangs. Counts in ticks of its owner, so that a
/// machine that sleeps, or a launcher that is stopped, accuses nobody. No clock of its own.
class Liveness {
 public:
  explicit Liveness(const RunSpec::Recovery& limits) : limits_(limits) {}

  void watch(std::uint64_t incarnation) {
    expected_.erase(incarnation);
    watched_[incarnation] = {};
  }
  /// It has been spawned; watch() follows when it joins.
  void expect(std::uint64_t incarnation) { expected_[incarnation] = {}; }
  /// The incarnations of workers that were spawned and have not joined yet.
  std::vector<std::uint64_t> expected() const;
  /// Processor time that one of them has used so far. It cannot say that it lives before it joins:
  /// whose time stands still does nothing.
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

  struct Verdict {
    std::uint64_t incarnation = 0;
    std::string why;      ///< "has said nothing for 3 s"
    double silent_s = 0;  ///< since the last sign of life
  };
  /// Every kLivenessTick. Those whose time is up; each is named once.
  std::vector<Verdict> tick();

 private:
  struct Watched {
    double silent_s = 0;  ///< the process
    double stuck_s = 0;   ///< its runner, while it computes
    std::uint64_t progress = 0;
    double longest_action_s = 0;
    std::string state;
  };
  RunSpec::Recovery limits_;
  std::map<std::uint64_t, Watched> watched_;
  struct Expected {
    double waited_s = 0;  ///< since it was spawned
    double silent_s = 0;
    double cpu_s = 0;
  };
  std::map<std::uint64_t, Expected> expected_;
};

}  // namespace troupe::actors
