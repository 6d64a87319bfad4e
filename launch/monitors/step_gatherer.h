#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "actors/monitors/event.h"

namespace troupe::launch {

/// What all ranks did in a step.
struct WholeStep {
  std::int64_t step = 0;
  std::map<int, std::vector<actors::ActionsTraced::Action>> ranks;  ///< actions by rank
  std::map<int, std::optional<actors::ClockAhead>> clocks;          ///< by rank
};

/// The step as {step, ranks: [{rank, replica, stage, shard, actions}]}, with all times on the clock
/// of the first rank's host as far as that is known, and, of several hosts, clock_error_s, by which
/// those of other hosts may be wrong. `ranks` has all of the step.
nlohmann::json to_json(WholeStep step, const std::vector<actors::RankStatus>& ranks);

/// Puts a step together from the parts that its ranks send. It holds one step: the first part of
/// another one replaces what has come.
class StepGatherer {
 public:
  /// A configuration has begun, with so many ranks; parts of another one do not count.
  void expect(std::uint32_t configuration, std::size_t num_ranks);
  /// Adds a part. Returns the step when this was the last part of the last rank.
  std::optional<WholeStep> add(const actors::RunEvent& event, const actors::ActionsTraced& part);
  /// Parts were lost: the step of the next part that comes, which may lack some, is left out.
  void leave_out_open_step() { left_out_ = kNextStep; }

 private:
  std::uint32_t configuration_ = 0;
  std::size_t num_ranks_ = 0;
  WholeStep step_;
  std::set<int> complete_;  // ranks that have sent all their actions
  static constexpr std::int64_t kNone = -1, kNextStep = -2;
  std::int64_t left_out_ = kNone;  // the step that is left out; kNextStep: that of the next part
};

}  // namespace troupe::launch
