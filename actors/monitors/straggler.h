#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "actors/monitors/event.h"
#include "actors/monitors/subscriber_thread.h"

namespace troupe::actors {

/// Finds stages whose time for a step leaves what is to be expected of them. A stage's score is the
/// median, over its last kWindow steps, of its busy time over the expected one: with replicas, the
/// median of the same stage in the other replicas; without, its own median over the last kHistory
/// steps, times what the other stages' steps took over their own medians (a machine that slows down
/// as a whole has no straggler). A score of kScore or more is told, and again after kPause steps.
class StragglerScores {
 public:
  static constexpr std::size_t kWindow = 32;
  static constexpr std::size_t kHistory = 128;
  static constexpr double kScore = 2.0;
  static constexpr std::int64_t kPause = 100;

  std::vector<StragglerFound> on_step(const StepReport& report);
  /// Another layout: earlier times mean nothing.
  void forget() { stages_.clear(); }

 private:
  using Key = std::pair<int, int>;  // replica, stage
  struct History {
    std::deque<double> busy_s;  // newest last
    std::deque<double> ratios;  // busy over expected
    std::int64_t told_at = -kPause;
  };
  double expected_s(const std::vector<StepReport::StageTime>& stages,
                    const StepReport::StageTime& stage) const;

  std::map<Key, History> stages_;
};

/// A monitor that publishes what StragglerScores finds.
class StragglerWatch {
 public:
  explicit StragglerWatch(Hub& hub);

 private:
  void consume(const Subscription::Batch& batch);

  Hub& hub_;
  StragglerScores scores_;
  SubscriberThread thread_;  // last: ends before what it uses
};

}  // namespace troupe::actors
