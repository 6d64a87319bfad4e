#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "actors/topology/reports.h"
#include "launch/charts/curve.h"
#include "launch/report/history.h"
#include "launch/report/metrics.h"
#include "launch/report/step_picture.h"
#include "launch/report/time_account.h"

namespace troupe::launch {

/// A rank as it said last.
struct RankNow {
  int rank = 0;
  int replica = 0;
  int stage = 0;
  int shard = 0;
  int pid = 0;
  std::string host;
  std::string state;        ///< RankStatus::state
  std::string waiting_for;  ///< empty: for nothing
  std::uint64_t resident_bytes = 0;
  double busy_s = 0;  ///< in the newest step
  double idle_s = 0;
  double collective_s = 0;              ///< the part of it that waited for collectives
  std::uint64_t device_used_bytes = 0;  ///< of its GPU; 0 without one
  std::uint64_t device_total_bytes = 0;
};

/// What one rank sent another in the newest step.
struct EdgeNow {
  int from = 0;
  int to = 0;
  double bytes_per_s = 0;
  double wait_share = 0;  ///< of the step, that `to` waited for messages of `from`
};

/// A source of a mixture until now.
struct SourceNow {
  std::string name;
  double tokens = 0;  ///< targets that were of it
  LongCurve loss;     ///< over the steps that had a sample of it
};

/// A run at one moment, as its page shows it.
struct RunNow {
  std::string name;
  /// "training", "recovering: spawn", "catching up", or why it ended.
  std::string doing = "starting";
  enum class Mood { working, changing, ended, failed } mood = Mood::changing;
  double time = 0;  ///< Unix seconds
  std::int64_t max_steps = 0;
  double left_s = 0;               ///< until the last step; 0 before the first one
  std::optional<StepRow> newest;   ///< newest step, be it one that is computed again
  std::optional<std::int64_t> at;  ///< the step that the run is at, if `newest` is of another
  std::optional<actors::CatchUp> catch_up;  ///< while steps are computed again
  std::vector<EvaluationRow> evaluations;
  LongCurve loss, speed;           ///< over all steps
  std::vector<SourceNow> sources;  ///< in the manifest's order; none without a mixture
  TimeSums sums;                   ///< over all steps
  History history;
  std::deque<TimelineEntry>
      timeline;  ///< the newest of each kind, with those that History leaves out
  std::deque<TimelineEntry> routine;  ///< the newest signs of life, and comings and goings
  std::vector<RankNow> ranks;
  std::vector<EdgeNow> edges;
  std::optional<StepPicture> picture;  ///< a step that was recorded while somebody looked
  std::optional<double> bubble;        ///< bubble_of() the newest recorded steps, on average
  std::string advice;                  ///< what another split of layers would do to it

  bool ended() const { return mood == Mood::ended || mood == Mood::failed; }
  std::int64_t step() const { return at.value_or(newest ? newest->step : 0); }
  /// The newest step that was ever committed.
  std::int64_t reached() const { return catch_up ? catch_up->reached : step(); }
  std::string state() const;  ///< in a word or two: "training", "ended in order"
  /// The time left: "2 min left", and how far the run has caught up; once it has ended, why. Empty
  /// while no step is computed, which takes as long as it takes.
  std::string left() const;
  std::string shape() const;  ///< "pp 4 x dp 2, 1f1b"; empty before the first worker has joined
};

}  // namespace troupe::launch
