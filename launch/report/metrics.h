#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/topology/reports/reports.h"
#include "launch/charts/curve.h"

namespace troupe::launch {

/// A step, as a line of metrics.jsonl tells of it. What a line lacks is NaN. Times of the ranks are
/// means over all of them.
struct StepRow {
  std::int64_t step = 0;
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
  double tokens = 0;
  double step_s = 0;
  double mfu = 0;       ///< model FLOP utilization, from 0 to 1
  double aux_loss = 0;  ///< of routers, with its coefficients
  double busiest = 0;   ///< busiest_expert()
  double busy_s = 0;
  double idle_s = 0;        ///< within the actions of the step, for whatever reason
  double collective_s = 0;  ///< the part of it that waited for collectives of shards
  /// The longest that a rank stood still for collectives that complete gradients; 0 without any.
  double exposed_s = 0;

  double tokens_per_s() const { return tokens / step_s; }
};

/// What a rank did over some steps; of its GPU's memory, the most that was used.
using RankTimes = actors::StepReport::StageTime;

/// Losses of a source of a mixture, or on one of several evaluation sets.
struct NamedLosses {
  std::string name;
  std::vector<Point> losses;  ///< by step, of those that had a sample of it
  double tokens = 0;          ///< targets that were of a source
};

struct Metrics {
  std::vector<StepRow> steps;                   ///< ascending
  std::vector<actors::EvalReport> evaluations;  ///< ascending
  std::vector<NamedLosses> sources;             ///< in the manifest's order; none without a mixture
  std::vector<actors::StepReport::Router> routers;  ///< of the newest step; none without experts
  /// Sums over the steps since the ranks were the newest step's, but for the first one of them.
  std::vector<RankTimes> ranks;
  std::int64_t num_summed = 0;  ///< number of steps in these sums
};

/// Curves over the steps.
Curve loss_curve(const Metrics& metrics);
Curve speed_curve(const Metrics& metrics);  ///< tokens/s
Curve norm_curve(const Metrics& metrics);   ///< of the gradient
Curve rate_curve(const Metrics& metrics);   ///< learning rate, which has no noise: both are one
Curve mfu_curve(const Metrics& metrics);    ///< model FLOP utilization in percent
Curve aux_curve(const Metrics& metrics);    ///< StepRow::aux_loss, where there are experts
Curve load_curve(const Metrics& metrics);   ///< StepRow::busiest
/// Losses by step, on the first set if there are several.
std::vector<Point> evaluation_points(const std::vector<actors::EvalReport>& evaluations);
/// Losses on each of several sets, in the manifest's order; none if there is but one.
std::vector<NamedLosses> losses_by_set(const std::vector<actors::EvalReport>& evaluations);

/// The rank whose GPU had the least memory left; null if none has a GPU.
const RankTimes* fullest_gpu(const Metrics& metrics);

/// The sum of StepRow::exposed_s.
double exposed_s(const Metrics& metrics);

/// The step that a line, or the event of the step, tells of.
StepRow step_row(const nlohmann::json& line);

/// Reads metrics.jsonl. A line that is not whole, or of a step that is there already, is left out,
/// so that the file of a run that is going on, or was killed, can be read. A file that cannot be
/// opened has no lines.
Metrics read_metrics(std::istream& file);
Metrics read_metrics(const std::filesystem::path& path);

}  // namespace troupe::launch
