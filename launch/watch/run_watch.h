#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/monitors/event.h"
#include "actors/topology/run_spec.h"
#include "launch/manifest/inputs/peak_rate.h"
#include "launch/monitors/step_gatherer.h"
#include "launch/run/step_times.h"
#include "launch/watch/run_now.h"

namespace troupe::launch {

/// What a picture needs to know of its run beside events.
struct WatchedRun {
  std::string name;
  std::int64_t max_steps = 0;
  PeakRate peak = {};
  std::function<actors::RunSpec()> spec = {};  ///< for the current shape, from any thread
  // What the run's files had when the watch began, in their order. Events that are among these may
  // come again.
  Metrics past_steps = {};
  std::vector<nlohmann::json> past_events = {};
  nlohmann::json past_step = nullptr;  ///< measured_step.json; null: there is none
};

/// Follows a run by its events, in memory that does not grow with the number of steps. All
/// functions are callable from any thread.
class RunWatch {
 public:
  /// Limits for each kind, so that no kind pushes out another.
  static constexpr std::size_t kMostTimelineEntries = 1000;
  static constexpr std::size_t kMostRoutine = 50;
  /// The bubble is a mean over so many of the newest recorded steps.
  static constexpr std::size_t kMostBubbles = 16;
  /// So many of the newest past events are known again if they come.
  static constexpr std::size_t kMostKnown = 1000;

  explicit RunWatch(const WatchedRun& run);

  /// For a watch that begins within a run: its status at that time. `left_s` is the time until the
  /// last step; 0 if it is not known.
  void begin(const actors::RunStatus& status, double left_s);
  void apply(const actors::RunEvent& event);
  /// The run has ended. Its own event of that may have come, or been lost.
  void end(const actors::Outcome& outcome);
  /// Events were lost before the next one: actions of a step of which only a part will come make no
  /// picture.
  void miss();
  /// `time` is the moment in Unix seconds.
  RunNow now(double time);
  /// The time of a usual step of the current shape; 0 before the first one.
  double step_s() const;

 private:
  void add_step(const actors::StepReport& report, const nlohmann::json& event);
  StepRow take_up(const actors::StepReport& report, const nlohmann::json& event);
  void add_activity(int rank, const actors::RankActivity& activity);
  void add_members(std::uint32_t configuration, const std::vector<actors::RankStatus>& ranks);
  void add_entry(const nlohmann::json& event);
  void follow_state(const actors::RunEvent& event);
  std::optional<double> usual_bubble(const StepPicture& picture);

  const PeakRate peak_;
  mutable std::mutex mutex_;  // guards the members below
  RunNow now_;
  Historian historian_;
  StepTimes step_times_;
  std::string change_;        // "recovering" or "changing", while the cluster does
  bool ends_change_ = false;  // the step that is being added is the first after a change
  StepGatherer gatherer_;
  std::set<std::pair<double, std::string>> past_;  // time and kind of the newest past events
  nlohmann::json recorded_;       // the newest step that all ranks have sent; null: none
  std::int64_t bubble_step_ = 0;  // the step of the newest of these
  std::deque<double> bubbles_;
};

}  // namespace troupe::launch
