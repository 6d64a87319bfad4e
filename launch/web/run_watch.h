#pragma once

#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "actors/monitors/event.h"
#include "actors/topology/run_spec.h"
#include "launch/manifest/peak_rate.h"
#include "launch/monitors/step_gatherer.h"
#include "launch/run/step_times.h"
#include "launch/web/run_now.h"

namespace troupe::launch {

/// What a page needs to know of its run beside events.
struct WatchedRun {
  std::string name;
  std::int64_t max_steps = 0;
  PeakRate peak = {};
  std::function<actors::RunSpec()> spec = {};  ///< for the current shape, from any thread
  // What the launches before this one left, in their order.
  Metrics past_steps = {};
  std::vector<nlohmann::json> past_events = {};
};

/// Follows a run by its events, in memory that does not grow with the number of steps. All
/// functions are callable from any thread.
class RunWatch {
 public:
  /// Limits for each kind, so that no kind pushes out another.
  static constexpr std::size_t kMostHappenings = 200;
  static constexpr std::size_t kMostRoutine = 50;

  explicit RunWatch(const WatchedRun& run);

  void apply(const actors::RunEvent& event);
  /// `time` is the moment in Unix seconds.
  RunNow now(double time) const;
  /// The time of a usual step of the current shape; 0 before the first one.
  double step_s() const;

 private:
  void add_step(const actors::StepReport& report, const nlohmann::json& event);
  void add_activity(int rank, const actors::RankActivity& activity);
  void add_members(const actors::RunEvent& event, const actors::MembershipChanged& membership);
  void add_happening(const nlohmann::json& event);
  void follow_state(const actors::RunEvent& event);

  const PeakRate peak_;
  mutable std::mutex mutex_;  // guards the members below
  RunNow now_;
  Historian historian_;
  StepTimes step_times_;
  std::string change_;  // "recovering" or "changing", while the cluster does
  StepGatherer gatherer_;
  std::vector<actors::RankStatus> members_;
  std::optional<nlohmann::json> recorded_;  // the newest step that all ranks have sent
};

}  // namespace troupe::launch
