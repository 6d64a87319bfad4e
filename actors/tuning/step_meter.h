#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/topology/epoch.h"
#include "schedules/action.h"

namespace troupe::actors {

/// Seconds that one action takes, by kind.
struct ActionTimes {
  std::array<double, 4> seconds{};
  double& of(schedules::Op op);
  double of(schedules::Op op) const;
};

/// What some steps of one shape showed; medians.
struct Measured {
  std::vector<ActionTimes> chunks;  ///< by chunk
  double hop_s = 0;   ///< from a message's leaving to the start of the action that waits for it
  double step_s = 0;  ///< from one commit to the next
  std::vector<double> steps;  ///< the same of each step that was measured
  std::int64_t first_step = 0, last_step = 0;
};

/// Takes the times of an epoch's steps as they arrive, in any order: actions from each rank, the
/// whole step from the director. Its first step, which pays for the start, counts for nothing.
class StepMeter {
 public:
  /// Steps whose actions are looked at, and steps whose whole time is: as many as it takes to tell
  /// what a change of it brings (GainCheck).
  static constexpr std::size_t kTraced = 3;
  static constexpr std::size_t kSteps = 12;

  explicit StepMeter(const ClusterShape& shape) : shape_(shape) {}
  void add(const TracedActions& actions);
  void add(std::int64_t step, double seconds);
  /// None until kTraced steps are complete and kSteps are over.
  std::optional<Measured> result() const;

 private:
  struct Step {
    std::map<int, std::vector<TracedActions::Row>> rows;  // by rank
    std::set<int> complete;                               // ranks
    std::optional<double> seconds;
  };
  std::vector<const Step*> whole_steps() const;
  std::vector<double> times() const;

  ClusterShape shape_;
  std::map<std::int64_t, Step> steps_;
};

/// The middle one; 0 of none.
double median(std::vector<double> values);

}  // namespace troupe::actors
