#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/topology/reports/reports.h"
#include "launch/charts/curve.h"
#include "launch/report/history.h"
#include "launch/report/metrics.h"
#include "launch/report/step_picture.h"
#include "launch/report/time_account.h"

namespace troupe::launch {

/// A rank as it said last, and its times in the newest step.
struct RankNow : actors::RankStatus {
  actors::StepReport::StageTime times = {};
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
  std::vector<actors::EvalReport> evaluations;
  LongCurve loss, speed;           ///< over all steps
  std::vector<SourceNow> sources;  ///< in the manifest's order; none without a mixture
  /// In the newest step; none of a model without experts.
  std::vector<actors::StepReport::Router> routers;
  TimeSums sums;  ///< over all steps
  History history;
  std::deque<TimelineEntry>
      timeline;  ///< the newest of each kind, with those that History leaves out
  std::deque<TimelineEntry> routine;  ///< the newest signs of life, and comings and goings
  std::vector<RankNow> ranks;
  std::vector<actors::StepReport::EdgeBytes> edges;  ///< in the newest step
  std::optional<StepPicture> picture;  ///< a step that was recorded while somebody looked
  std::optional<double> bubble;        ///< bubble_of() the newest recorded steps, on average
  std::string advice;                  ///< what another split of layers would do to it

  /// The hosts of a run on several, with the ranks of each, and what these sent in the newest step.
  std::vector<actors::HostStatus> hosts() const;
  TimeAccount time_account() const {
    return where_time_went(sums, history, ended() ? 0 : time, bubble);
  }
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

// What pictures of the mesh tell, whatever they are drawn with.

enum class RankMood { starts, computes, waits, lost };
/// What a rank's state amounts to: one that is done with its part, and stands still until all
/// others are, waits, too.
RankMood mood_of(const RankNow& rank);
/// "running", or "waits for ..." with all that the rank tells of its wait. The rank that it waits
/// for comes first, because the end of a text may have no room.
std::string doing_of(const RankNow& rank);
/// "replica 0, stage 1", and the shard where there are several.
std::string place_text(const RankNow& rank, bool has_shards);
/// " on h1" in a run on several hosts, else empty.
std::string host_text(const RunNow& run, const RankNow& rank);
/// The share of the newest step in which the rank was busy.
double busy_share(const RankNow& rank);
/// The share of it in which the rank waited for collectives.
double collective_share(const RankNow& rank);
/// The memory that a person looks at: that of the GPU if there is one. Empty if none is known.
std::string memory_of(const RankNow& rank);

/// The shards of a stage. They point into the run's ranks, which must outlive them.
using StageRanks = std::vector<const RankNow*>;
/// The ranks by replica and stage.
using Mesh = std::map<int, std::map<int, StageRanks>>;
Mesh mesh_of(const std::vector<RankNow>& ranks);
int num_stages(const Mesh& mesh);
/// What is drawn between a stage and the one after it in the row of a replica: the ranks at both
/// ends. Where stages differ in width, tensors go to other rows, and a row may lack one of the two.
struct Between {
  StageRanks left, right;
};
/// None if the row has neither.
std::optional<Between> between(const Mesh& mesh, int replica, int stage);

/// What goes from the ranks of one stage to those of another, all together.
struct Flow {
  double bytes_per_s = 0;
  double wait_share = 0;  ///< of the rank that waited longest
};
Flow flow_between(const RunNow& run, const StageRanks& from, const StageRanks& to);
/// A wait that takes less of a step is not worth a word.
inline constexpr double kNoticedWait = 0.05;
/// "1.5 MiB/s".
std::string rate_text(double bytes_per_s);

}  // namespace troupe::launch
