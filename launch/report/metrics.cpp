#include "launch/report/metrics.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "launch/report/router_table.h"
#include "launch/run/metrics_file.h"

namespace troupe::launch {

TROUPE_JSON_FIELDS(StepRow, x.step, x.loss, x.grad_norm, x.lr, x.tokens, x.step_s, x.mfu,
                   x.aux_loss)

namespace {

using actors::EvalReport;
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

std::vector<actors::StepReport::Router> routers_of(const json& line) {
  return field_of<std::vector<actors::StepReport::Router>>(line, "routers");
}

StepRow row_of(const json& line, const std::vector<RankTimes>& ranks) {
  auto row = read_fields<StepRow>(line);
  row.busy_s = mean(ranks, &RankTimes::busy_s);
  row.idle_s = mean(ranks, &RankTimes::idle_s);
  row.collective_s = mean(ranks, &RankTimes::collective_s);
  row.exposed_s = exposed_of(line);
  row.busiest = busiest_expert(routers_of(line));
  return row;
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
    for (RankTimes& sum : metrics.ranks) {
      sum.busy_s = sum.idle_s = sum.collective_s = 0;
      sum.host_bytes = sum.network_bytes = 0;
    }
    metrics.num_summed = 0;
    return;  // the first step of a shape is a slow one
  }
  ++metrics.num_summed;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    RankTimes& sum = metrics.ranks[i];
    sum.busy_s += ranks[i].busy_s;
    sum.idle_s += ranks[i].idle_s;
    sum.collective_s += ranks[i].collective_s;
    sum.host_bytes += ranks[i].host_bytes;
    sum.network_bytes += ranks[i].network_bytes;
    sum.device_used_bytes = std::max(sum.device_used_bytes, ranks[i].device_used_bytes);
  }
}

/// The losses of a name, which are there from now on.
NamedLosses& losses_of(const std::string& name, std::vector<NamedLosses>& all) {
  const auto found = std::ranges::find(all, name, &NamedLosses::name);
  return found != all.end() ? *found : all.emplace_back(NamedLosses{.name = name, .losses = {}});
}

void add_sources(Metrics& metrics, std::int64_t step, const json& line) {
  for (const json& of_step : objects_of(line, "sources")) {
    NamedLosses& source = losses_of(text_of(of_step, "name"), metrics.sources);
    const double loss = number_of(of_step, "loss"), tokens = number_of(of_step, "tokens");
    if (!std::isfinite(loss)) continue;
    source.losses.push_back({.x = static_cast<double>(step), .y = loss});
    if (std::isfinite(tokens)) source.tokens += tokens;
  }
}

/// A figure of each of these rows, by step.
template <typename Row, typename Figure>
std::vector<Point> points_of(const std::vector<Row>& rows, Figure figure) {
  std::vector<Point> points;
  for (const Row& row : rows)
    points.push_back({.x = static_cast<double>(row.step), .y = std::invoke(figure, row)});
  return finite(std::move(points));
}

}  // namespace

StepRow step_row(const json& line) {
  return row_of(line, rank_times(line));
}

Curve loss_curve(const Metrics& metrics) {
  return smooth_curve(points_of(metrics.steps, &StepRow::loss));
}
Curve speed_curve(const Metrics& metrics) {
  return smooth_curve(points_of(metrics.steps, &StepRow::tokens_per_s));
}
Curve norm_curve(const Metrics& metrics) {
  return smooth_curve(points_of(metrics.steps, &StepRow::grad_norm));
}
Curve rate_curve(const Metrics& metrics) {
  const auto points = points_of(metrics.steps, &StepRow::lr);
  return {.raw = points, .smooth = points};
}
Curve mfu_curve(const Metrics& metrics) {
  return smooth_curve(points_of(metrics.steps, [](const StepRow& row) { return 100 * row.mfu; }));
}
Curve aux_curve(const Metrics& metrics) {
  return smooth_curve(points_of(metrics.steps, &StepRow::aux_loss));
}
Curve load_curve(const Metrics& metrics) {
  return smooth_curve(points_of(metrics.steps, &StepRow::busiest));
}
std::vector<Point> evaluation_points(const std::vector<EvalReport>& evaluations) {
  return points_of(evaluations, &EvalReport::loss);
}

std::vector<NamedLosses> losses_by_set(const std::vector<EvalReport>& evaluations) {
  std::vector<NamedLosses> sets;
  for (const EvalReport& row : evaluations)
    for (const auto& [name, loss] : row.sets) {
      NamedLosses& set = losses_of(name, sets);
      if (std::isfinite(loss))
        set.losses.push_back({.x = static_cast<double>(row.step), .y = loss});
    }
  return sets;
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
      metrics.routers = routers_of(line);
    }
  }
  return metrics;
}

}  // namespace troupe::launch
