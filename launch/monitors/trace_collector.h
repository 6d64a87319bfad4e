#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "actors/monitors/event.h"
#include "actors/topology/reports/clock_ahead.h"

namespace troupe::launch {

/// Gathers the actions of whole steps from events and writes them as a trace for Perfetto or
/// Chrome: a process for each rank, an "X" event for each action and for each wait before one, and
/// a flow arrow from the action that sent a message, at the time when it left, to the action that
/// needed it, and a pair of "b" and "e" for each collective that completes a bucket of gradients,
/// several of which may be under way at once. Times are of the monotonic clock of the first rank's
/// host, relative to the first action. Those of other hosts are set to it by what is known of their
/// clocks (actors/tuning/host_clocks.h); "otherData" says how far each was ahead, and by how many
/// microseconds that may be wrong.
class TraceCollector {
 public:
  /// Collects `num_steps` steps. `status` is the run's status, which lists its ranks.
  TraceCollector(const nlohmann::json& status, int num_steps);

  /// Adds an event of any kind; kinds that a trace does not need are ignored.
  void add(const nlohmann::json& event);
  /// The number of steps for which all ranks' actions have arrived; at most num_steps.
  int num_complete() const { return static_cast<int>(complete_.size()); }
  bool done() const { return num_complete() >= num_steps_; }
  /// By how much times of other hosts than the first rank's may be wrong; 0 if there are none.
  double clock_error_s() const;
  /// The actions of the complete steps, in the Chrome trace format.
  nlohmann::json chrome_trace() const;

 private:
  using Step = std::map<int, actors::ActionsTraced>;  // by rank

  int second_track(int rank) const { return static_cast<int>(ranks_.size()) + rank; }
  void add_ranks(const nlohmann::json& from);
  void use_one_clock(Step& ranks);
  nlohmann::json clocks_json() const;

  const int num_steps_;
  std::map<int, std::string> ranks_;  // names of the ranks of the newest configuration
  std::map<int, std::string> hosts_;  // of these ranks
  // By host, of the first rank's: those of the step in which it was known least.
  std::map<std::string, actors::ClockAhead> clocks_;
  std::map<std::int64_t, Step> open_;
  std::map<std::int64_t, Step> complete_;
};

}  // namespace troupe::launch
