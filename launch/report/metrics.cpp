#include "launch/report/metrics.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "launch/run/report_fields.h"

namespace troupe::launch {
namespace {

using nlohmann::json;

std::vector<RankTimes> rank_times(const json& line) {
  return field_of<std::vector<RankTimes>>(line, "stages");
}

double mean(const std::vector<RankTimes>& ranks, double RankTimes::*time) {
  double sum = 0;
  for (const RankTimes& rank : ranks) sum += rank.*time;
  return sum / static_cast<double>(ranks.size());  // NaN without ranks
}

/// Groups work side by side, so that of the longest one counts.
double exposed_of(const json& line) {
  using Collectives = actors::StepReport::Collectives;
  std::map<std::string, double> by_group;
  for (const auto& row : field_of<std::vector<Collectives>>(line, "collectives"))
    by_group[row.group] += row.exposed_s;
  double longest = 0;
  for (const auto& [group, seconds] : by_group) longest = std::max(longest, seconds);
  return longest;
}

StepRow row_of(const json& line, const std::vector<RankTimes>& ranks) {
  return {.step = integer_of(line, "step"),
          .loss = number_of(line, "loss"),
          .grad_norm = number_of(line, "grad_norm"),
          .lr = number_of(line, "lr"),
          .tokens = number_of(line, "tokens"),
          .step_s = number_of(line, "step_s"),
          .mfu = number_of(line, "mfu"),
          .busy_s = mean(ranks, &RankTimes::busy_s),
          .idle_s = mean(ranks, &RankTimes::idle_s),
          .collective_s = mean(ranks, &RankTimes::collective_s),
          .exposed_s = exposed_of(line)};
}

bool same_places(const std::vector<RankTimes>& a, const std::vector<RankTimes>& b) {
  return std::ranges::equal(a, b, [](const RankTimes& x, const RankTimes& y) {
    return x.replica == y.replica && x.stage == y.stage && x.shard == y.shard;
  });
}

/// Adds a step's times to the sums, or begins new sums if the ranks are others.
void add_rank_times(Metrics& metrics, const std::vector<RankTimes>& ranks) {
  if (!same_places(metrics.ranks, ranks)) {
    metrics.ranks = ranks;
    for (RankTimes& sum : metrics.ranks) sum.busy_s = sum.idle_s = sum.collective_s = 0;
    metrics.num_summed = 0;
    return;  // the first step of a shape is a slow one
  }
  ++metrics.num_summed;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    RankTimes& sum = metrics.ranks[i];
    sum.busy_s += ranks[i].busy_s;
    sum.idle_s += ranks[i].idle_s;
    sum.collective_s += ranks[i].collective_s;
    sum.device_used_bytes = std::max(sum.device_used_bytes, ranks[i].device_used_bytes);
  }
}

void add_sources(Metrics& metrics, std::int64_t step, const json& line) {
  for (const json& of_step : objects_of(line, "sources")) {
    const std::string name = text_of(of_step, "name");
    auto source = std::ranges::find(metrics.sources, name, &SourceRow::name);
    if (source == metrics.sources.end())
      source = metrics.sources.insert(source, {.name = name, .losses = {}});
    const double loss = number_of(of_step, "loss"), tokens = number_of(of_step, "tokens");
    if (!std::isfinite(loss)) continue;
    source->losses.push_back({.x = static_cast<double>(step), .y = loss});
    if (std::isfinite(tokens)) source->tokens += tokens;
  }
}

template <typename Figure>
std::vector<Point> points_of(const Metrics& metrics, Figure figure) {
  std::vector<Point> points;
  for (const StepRow& row : metrics.steps)
    points.push_back({.x = static_cast<double>(row.step), .y = figure(row)});
  return finite(std::move(points));
}

}  // namespace

StepRow step_row(const json& line) {
  return row_of(line, rank_times(line));
}

Curve loss_curve(const Metrics& metrics) {
  return smooth_curve(points_of(metrics, [](const StepRow& row) { return row.loss; }));
}
Curve speed_curve(const Metrics& metrics) {
  return smooth_curve(points_of(metrics, [](const StepRow& row) { return row.tokens_per_s(); }));
}
Curve norm_curve(const Metrics& metrics) {
  return smooth_curve(points_of(metrics, [](const StepRow& row) { return row.grad_norm; }));
}
Curve rate_curve(const Metrics& metrics) {
  const auto points = points_of(metrics, [](const StepRow& row) { return row.lr; });
  return {.raw = points, .smooth = points};
}
std::vector<Point> evaluation_points(const std::vector<EvaluationRow>& evaluations) {
  std::vector<Point> points;
  for (const EvaluationRow& row : evaluations)
    points.push_back({.x = static_cast<double>(row.step), .y = row.loss});
  return finite(std::move(points));
}

std::vector<SetLosses> losses_by_set(const std::vector<EvaluationRow>& evaluations) {
  std::vector<SetLosses> sets;
  for (const EvaluationRow& row : evaluations)
    for (const auto& [name, loss] : row.sets) {
      auto set = std::ranges::find(sets, name, &SetLosses::name);
      if (set == sets.end()) set = sets.insert(set, {.name = name, .losses = {}});
      if (std::isfinite(loss))
        set->losses.push_back({.x = static_cast<double>(row.step), .y = loss});
    }
  return sets;
}

Curve mfu_curve(const Metrics& metrics) {
  return smooth_curve(points_of(metrics, [](const StepRow& row) { return 100 * row.mfu; }));
}

const RankTimes* fullest_gpu(const Metrics& metrics) {
  const auto fullest = std::ranges::max_element(metrics.ranks, {}, &RankTimes::device_used_bytes);
  const bool known = fullest != metrics.ranks.end() && fullest->device_total_bytes > 0;
  return known ? &*fullest : nullptr;
}

double exposed_s(const Metrics& metrics) {
  double sum = 0;
  for (const StepRow& row : metrics.steps) sum += row.exposed_s;
  return sum;
}

Metrics read_metrics(const std::filesystem::path& path) {
  std::ifstream file(path);
  return read_metrics(file);
}

Metrics read_metrics(std::istream& file) {
  Metrics metrics;
  for (std::string text; std::getline(file, text);) {
    const json line = json::parse(text, nullptr, false);
    const std::int64_t step = integer_of(line, "step", -1);
    if (step < 0) continue;
    if (line.contains("eval_loss")) {
      if (metrics.evaluations.empty() || metrics.evaluations.back().step < step)
        metrics.evaluations.push_back(
            {.step = step,
             .loss = number_of(line, "eval_loss"),
             .sets = field_of<std::vector<actors::SetLoss>>(line, "sets")});
    } else if (metrics.steps.empty() || metrics.steps.back().step < step) {
      const auto ranks = rank_times(line);
      metrics.steps.push_back(row_of(line, ranks));
      add_rank_times(metrics, ranks);
      add_sources(metrics, step, line);
    }
  }
  return metrics;
}

}  // namespace troupe::launch
