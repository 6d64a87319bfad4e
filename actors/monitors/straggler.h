#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "actors/monitors/event.h"
#include "actors/monitors/subscriber_thread.h"
#include "actors/topology/configuration.h"

namespace troupe::actors {

/// Finds stages whose busy time in a step is far above the expected one. A stage's score is the
/// median, over its last kWindow steps, of busy time divided by expected time. With replicas the
/// expected time is the median of the same stage in the other replicas. Without, it is the stage's
/// own median over its last kHistory steps, scaled by how much the other stages now take relative
/// to their own medians, so that a machine that slows down as a whole has no straggler. A score of
/// kScore or more is reported, and again after kPause steps.
class StragglerScores {
 public:
  static constexpr std::size_t kWindow = 32;
  static constexpr std::size_t kHistory = 128;
  static constexpr double kScore = 2.0;
  static constexpr std::int64_t kPause = 100;

  std::vector<StragglerFound> on_step(const StepReport& report);
  /// Called when the layout has changed, which makes earlier times meaningless.
  void forget() { stages_.clear(); }

 private:
  struct History {
    std::deque<double> busy_s;  // busy times, newest last
    std::deque<double> ratios;  // busy time over expected time, newest last
    std::int64_t told_at = -kPause;
  };
  double expected_s(const std::vector<StepReport::StageTime>& stages,
                    const StepReport::StageTime& stage) const;

  std::map<RankPlace, History> stages_;
};

/// A monitor that publishes what StragglerScores finds.
class StragglerWatch {
 public:
  explicit StragglerWatch(Hub& hub);
  /// The newest report of each stage, if it is of the last kPause steps. Callable from any thread.
  std::vector<StragglerFound> recent() const;

 private:
  struct Told {
    std::int64_t step = 0;
    StragglerFound found;
  };
  void consume(const Subscription::Batch& batch);
  void keep(std::int64_t step, const std::vector<StragglerFound>& found);

  Hub& hub_;
  StragglerScores scores_;
  mutable std::mutex mutex_;  // guards recent_
  std::map<RankPlace, Told> recent_;
  SubscriberThread thread_;  // declared last, so that it ends before the members that it uses
};

}  // namespace troupe::actors
