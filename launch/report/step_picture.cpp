#include "launch/report/step_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "actors/tuning/step_meter.h"
#include "launch/control/event_json.h"
#include "launch/host/quantities.h"
#include "schedules/analysis/simulate.h"
#include "schedules/analysis/validate.h"

namespace troupe::launch {
namespace {

using nlohmann::json;
using schedules::Op;

/// The actions that are whole and take time, in the order in which they began.
std::vector<TimedAction> actions_of(const json& rank) {
  std::vector<TimedAction> actions;
  for (const auto& a : field_of<std::vector<actors::ActionsTraced::Action>>(rank, "actions")) {
    const auto action = schedules::parse_action(a.name);
    if (!action || !(a.end_s >= a.begin_s)) continue;
    const double most = a.end_s - a.begin_s;
    actions.push_back(
        {.action = *action,
         .begin_s = a.begin_s,
         .end_s = a.end_s,
         .waited_s = std::isfinite(a.waited_s) ? a.waited_s : 0,
         .collective_s = std::isfinite(a.collective_s) ? std::clamp(a.collective_s, 0.0, most) : 0,
         .from = a.from});
  }
  std::ranges::stable_sort(actions, {}, &TimedAction::begin_s);
  return actions;
}

std::vector<RankRow> rows_of(const json& file) {
  std::vector<RankRow> rows;
  for (const json& rank : objects_of(file, "ranks"))
    rows.emplace_back(read_fields<RankRow>(rank)).actions = actions_of(rank);
  return rows;
}

/// Makes the first action begin at 0.
void begin_at_zero(std::vector<RankRow>& rows) {
  double first = std::numeric_limits<double>::infinity();
  for (const RankRow& row : rows)
    for (const TimedAction& a : row.actions) first = std::min(first, a.begin_s);
  for (RankRow& row : rows)
    for (TimedAction& a : row.actions) {
      a.begin_s -= first;
      a.end_s -= first;
    }
}

/// The ranks of the first replica's first shards, by stage.
std::vector<RankRow> first_pipeline(const std::vector<RankRow>& rows) {
  std::vector<RankRow> pipeline;
  for (const RankRow& row : rows)
    if (row.replica == 0 && row.shard == 0) pipeline.push_back(row);
  std::ranges::sort(pipeline, {}, &RankRow::stage);
  return pipeline;
}

/// The plan by which the ranks acted; none if they followed no valid one.
std::optional<schedules::Plan> plan_of(const std::vector<RankRow>& pipeline) {
  std::string csv;
  for (const RankRow& row : pipeline) {
    for (const TimedAction& a : row.actions) csv += schedules::to_string(a.action) + ',';
    csv += '\n';
  }
  const auto parsed = schedules::parse_csv(csv);
  const auto* plan = std::get_if<schedules::Plan>(&parsed);
  if (!plan || schedules::validate(*plan, schedules::purpose_of(*plan))) return std::nullopt;
  return *plan;
}

/// The median of what each chunk's actions of each kind compute; one that the system interrupted
/// does not count for all.
schedules::Costs median_costs(const std::vector<RankRow>& pipeline, int num_chunks) {
  std::map<std::pair<int, Op>, std::vector<double>> durations;
  for (const RankRow& row : pipeline)
    for (const TimedAction& a : row.actions)
      durations[{a.action.chunk, a.action.op}].push_back(a.length_s() - a.collective_s);
  const auto of = [&](int chunk, Op op) { return actors::median(durations[{chunk, op}]); };
  schedules::Costs costs;
  for (int chunk = 0; chunk < num_chunks; ++chunk)
    costs.chunks.push_back({.forward = of(chunk, Op::F),
                            .input_gradient = of(chunk, Op::I),
                            .weight_gradient = of(chunk, Op::W),
                            .backward = of(chunk, Op::B)});
  return costs;
}

std::vector<RankRow> predicted(std::vector<RankRow> pipeline) {
  const auto plan = plan_of(pipeline);
  if (!plan) return {};
  const auto simulation = schedules::simulate(*plan, median_costs(pipeline, plan->num_chunks()));
  if (!simulation) return {};
  for (std::size_t rank = 0; rank < pipeline.size(); ++rank)
    for (std::size_t i = 0; i < pipeline[rank].actions.size(); ++i) {
      TimedAction& a = pipeline[rank].actions[i];
      a = {.action = a.action,
           .begin_s = simulation->times[rank][i].start,
           .end_s = simulation->times[rank][i].end};
    }
  return pipeline;
}

double length_of(const std::vector<RankRow>& rows) {
  double end = 0;
  for (const RankRow& row : rows)
    for (const TimedAction& a : row.actions) end = std::max(end, a.end_s);
  return end;
}

/// "Rank 2 computes longest, 14 % above the mean." Empty for a single rank, and if all are alike.
std::string slowest(const std::vector<RankRow>& rows) {
  double sum = 0;
  for (const RankRow& row : rows) sum += row.busy_s();
  const auto longest = std::ranges::max_element(rows, {}, &RankRow::busy_s);
  const double mean = sum / static_cast<double>(rows.size());
  const double above = 100 * (longest->busy_s() / mean - 1);
  if (!(above >= 1)) return "";
  return fmt::format(" Rank {} (stage {}) computes longest, {:.0f} % above the mean.",
                     longest->rank, longest->stage, above);
}

/// "Of it a rank waited 12 % for collectives on average." Empty if it is nothing.
std::string shards_waited(const std::vector<RankRow>& rows, double length_s) {
  double sum = 0;
  for (const RankRow& row : rows) sum += row.collective_s();
  const double percent = 100 * sum / (length_s * static_cast<double>(rows.size()));
  if (!(percent >= 1)) return "";
  return fmt::format(" A rank stood still for collectives in {:.0f} % of it on average.", percent);
}

}  // namespace

double RankRow::busy_s() const {
  double sum = 0, until = 0;
  for (const TimedAction& a : actions) {  // two may run at the same time
    const double alone = std::max(0.0, a.end_s - std::max(until, a.begin_s));
    sum += std::max(0.0, alone - a.collective_s);
    until = std::max(until, a.end_s);
  }
  return sum;
}

double RankRow::collective_s() const {
  double sum = 0;
  for (const TimedAction& a : actions) sum += a.collective_s;
  return sum;
}

std::optional<double> RankRow::wait_begin_s(std::size_t action) const {
  const TimedAction& a = actions[action];
  const double earliest = action == 0 ? 0 : actions[action - 1].end_s;
  const double begin = std::max(earliest, a.begin_s - a.waited_s);
  if (a.from < 0 || !(begin < a.begin_s)) return std::nullopt;
  return begin;
}

double StepPicture::measured_s() const {
  return length_of(measured);
}
double StepPicture::predicted_s() const {
  return length_of(predicted);
}

std::optional<StepPicture> step_picture(const json& file) {
  StepPicture picture{.step = integer_of(file, "step"), .measured = rows_of(file), .predicted = {}};
  if (const double error_s = number_of(file, "clock_error_s"); error_s > 0)
    picture.clock_error_s = error_s;
  begin_at_zero(picture.measured);
  if (picture.measured_s() == 0) return std::nullopt;
  picture.predicted = predicted(first_pipeline(picture.measured));
  return picture;
}

bool has_action(const std::vector<RankRow>& rows, Op op) {
  return std::ranges::any_of(rows, [&](const RankRow& row) {
    return std::ranges::any_of(row.actions,
                               [&](const TimedAction& a) { return a.action.op == op; });
  });
}

double idle_share(const std::vector<RankRow>& rows) {
  double busy = 0;
  for (const RankRow& row : rows) busy += row.busy_s();
  return 1 - busy / (length_of(rows) * static_cast<double>(rows.size()));
}

std::optional<double> bubble_of(const StepPicture& picture) {
  if (picture.predicted.empty()) return std::nullopt;
  return idle_share(picture.predicted);
}

std::string in_words(const StepPicture& picture) {
  const double measured = picture.measured_s(), predicted = picture.predicted_s();
  std::string words =
      fmt::format("Forwards and backwards of step {} took {}.", picture.step, span_text(measured));
  const double percent = std::round(std::abs(100 * (1 - predicted / measured)));
  const std::string compared = percent == 0
                                   ? std::string("the same")
                                   : fmt::format("{}, {:.0f} % {},", span_text(predicted), percent,
                                                 predicted <= measured ? "less" : "more");
  if (predicted > 0)
    words += fmt::format(
        " The simulator expects {} if each action takes its kind's median time and no message or "
        "collective is late.",
        compared);
  words += shards_waited(picture.measured, measured) + slowest(picture.measured);
  if (picture.clock_error_s > 0)
    words += fmt::format(" Times of other hosts than the first rank's may be off by {}.",
                         span_text(picture.clock_error_s));
  return words;
}

}  // namespace troupe::launch
