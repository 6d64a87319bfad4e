#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/messages.h"
#include "actors/run_spec.h"

namespace troupe::actors {

/// Judges from heartbeats who has gone silent or hangs. Counts in ticks of its owner, so that a
/// machine that sleeps, or a launcher that is stopped, accuses nobody. No clock of its own.
class Liveness {
 public:
  /// `tick_s`: how often tick() is called.
  Liveness(const RunSpec::Recovery& limits, double tick_s) : limits_(limits), tick_s_(tick_s) {}

  void watch(std::uint64_t incarnation) { watched_[incarnation] = {}; }
  void forget(std::uint64_t incarnation) { watched_.erase(incarnation); }
  void heard(const Heartbeat& beat);

  struct Verdict {
    std::uint64_t incarnation = 0;
    std::string why;      ///< "has said nothing for 3 s"
    double silent_s = 0;  ///< since the last sign of life
  };
  /// Those whose time is up; each is named once.
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
  double tick_s_ = 0;
  std::map<std::uint64_t, Watched> watched_;
};

}  // namespace troupe::actors
