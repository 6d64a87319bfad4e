#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/topology/configuration.h"
#include "actors/tuning/host_clocks.h"
#include "schedules/plan/action.h"

namespace troupe::actors {

/// The seconds that an action computes and that it waits for collectives of the shards, for each
/// kind of action.
struct ActionTimes {
  static constexpr std::size_t kOps = 4;
  std::array<double, 2 * kOps> seconds{};  // computation by kind, then collectives by kind
  double& of(schedules::Op op);
  double of(schedules::Op op) const;
  double& collective_of(schedules::Op op);
  double collective_of(schedules::Op op) const;
};

/// Medians over the measured steps of one shape.
struct Measured {
  std::vector<ActionTimes> chunks;  ///< times of the actions of each chunk
  double hop_s = 0;   ///< from a message's departure to the start of the action that waits for it
  double step_s = 0;  ///< time from one commit to the next
  std::vector<double> steps;  ///< time from commit to commit for each measured step
  std::int64_t first_step = 0, last_step = 0;
};

/// Collects the times of a configuration's steps, which may arrive in any order: those of actions
/// from each rank, that of the whole step from the director. The configuration's first step, which
/// includes the start, is not counted.
class StepMeter {
 public:
  /// The number of steps whose actions are measured, and the number of steps whose whole time is
  /// measured, which is as many as GainCheck needs to judge a change.
  static constexpr std::size_t kTraced = 3;
  static constexpr std::size_t kSteps = 12;

  /// `hosts` by rank; ranks that are left out are on one.
  explicit StepMeter(const ClusterShape& shape, std::map<int, std::string> hosts = {});
  void add(const TracedActions& actions);
  void add(std::int64_t step, double seconds);
  /// The medians; none until kTraced steps have all their actions and kSteps steps are committed.
  std::optional<Measured> result() const;

 private:
  struct Step {
    TracedRanks rows;
    std::map<int, RankClock> clocks;
    std::set<int> complete;  // ranks that have sent all their actions
    std::optional<double> seconds;
  };
  std::vector<const Step*> whole_steps() const;
  std::vector<double> times() const;

  ClusterShape shape_;
  std::map<int, std::string> hosts_;  ///< by rank
  std::map<std::int64_t, Step> steps_;
};

/// The median of some values, the upper one if their number is even; 0 for no values.
double median(std::vector<double> values);

}  // namespace troupe::actors
