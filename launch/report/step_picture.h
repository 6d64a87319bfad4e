#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launch/run/json_fields.h"
#include "schedules/plan/action.h"

namespace troupe::launch {

/// An action of a rank, in seconds since the step's first one began.
struct TimedAction {
  schedules::Action action;
  double begin_s = 0;
  double end_s = 0;
  double waited_s = 0;  ///< before begin_s, for a message or a credit
  /// The part from begin_s to end_s in which nothing was computed, for lack of a collective; when
  /// in between is not known.
  double collective_s = 0;
  int from = -1;  ///< rank whose message it waited for; -1: none

  double length_s() const { return end_s - begin_s; }
  double collective_share() const { return length_s() > 0 ? collective_s / length_s() : 0; }
};

struct RankRow {
  int rank = 0;
  int replica = 0;
  int stage = 0;
  int shard = 0;
  std::vector<TimedAction> actions;  ///< in the order in which they began

  double busy_s() const;        ///< without what waited for collectives
  double collective_s() const;  ///< of all actions
  /// When the wait before an action began, which is after the end of the one before it; none if the
  /// action did not wait for a message.
  std::optional<double> wait_begin_s(std::size_t action) const;
};

/// An action as [name, begin_s, end_s].
void to_json(nlohmann::json& out, const TimedAction& action);
TROUPE_JSON_FIELDS(RankRow, x.rank, x.replica, x.stage, x.shard,
                   keyed("actions", nlohmann::json(x.actions)))

/// A measured step, and beside it what the simulator says of the same actions.
struct StepPicture {
  std::int64_t step = 0;
  std::vector<RankRow> measured;
  /// The stages of one replica: each action takes the median of its chunk's actions of that kind,
  /// and messages and collectives take no time. Empty if the actions are no valid plan.
  std::vector<RankRow> predicted;
  /// By which times of ranks on other hosts than the first rank's may be wrong; 0 on one host.
  double clock_error_s = 0;

  double measured_s() const;   ///< from the first action's begin to the last one's end
  double predicted_s() const;  ///< as above, of the prediction
};

/// Reads measured_step.json, and simulates it. None if it holds no step.
std::optional<StepPicture> step_picture(const nlohmann::json& file);

/// Whether the rows have an action of this kind.
bool has_action(const std::vector<RankRow>& rows, schedules::Op op);

/// The share of the time until the last action's end in which the ranks do nothing, on average.
double idle_share(const std::vector<RankRow>& rows);

/// The idle share of the prediction; none without one.
std::optional<double> bubble_of(const StepPicture& picture);

/// How the step differs from the prediction, and which rank computes longest.
std::string in_words(const StepPicture& picture);

}  // namespace troupe::launch
