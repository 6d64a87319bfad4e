#include "launch/web/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "launch/charts/markup.h"
#include "launch/charts/stacked_bar.h"
#include "launch/host/quantities.h"
#include "launch/report/curve_charts.h"
#include "launch/report/router_table.h"
#include "launch/report/run_page.h"

namespace troupe::launch {
namespace {

using Mood = RunNow::Mood;

/// The class of a mood in style.css.
const char* look_of(Mood mood) {
  if (mood == Mood::working) return "live";
  return mood == Mood::ended ? "good" : "bad";
}

std::string progress_bar(const RunNow& run) {
  const auto width = [&](std::int64_t step) {
    const double share = static_cast<double>(step) / static_cast<double>(run.max_steps);
    return "width:" + percent(std::min(share, 1.0));
  };
  return element("div",
                 {{"class", std::string("progress ") + look_of(run.mood)},
                  {"role", "progressbar"},
                  {"aria-label", "steps"},
                  {"aria-valuemin", "0"},
                  {"aria-valuemax", std::to_string(run.max_steps)},
                  {"aria-valuenow", std::to_string(run.step())}},
                 element("div", {{"class", "reached"}, {"style", width(run.reached())}}) +
                     element("div", {{"style", width(run.step())}}));
}

std::string head(const RunNow& run) {
  std::string reach = fmt::format("step {} of {}", grouped(run.step()), grouped(run.max_steps));
  if (const std::string shape = run.shape(); !shape.empty()) reach += " - " + shape;
  return element("header", {},
                 text_element("h1", {}, run.name) +
                     text_element(
                         "span",
                         {{"class", std::string("state ") + look_of(run.mood)}, {"role", "status"}},
                         run.state())) +
         progress_bar(run) +
         element("div", {{"class", "reach"}},
                 text_element("span", {}, reach) + text_element("span", {}, run.left()));
}

std::string facts(const RunNow& run, const Curve& loss) {
  if (!run.newest) return paragraph("No step is done yet.");
  const StepRow& step = *run.newest;
  std::vector<Fact> facts{{.name = "loss",
                           .value = fmt::format("{:.4f}", step.loss),
                           .more = run.catch_up ? fmt::format("of step {}", step.step)
                                   : loss.smooth.empty()
                                       ? ""
                                       : fmt::format("{:.4f} smoothed", loss.smooth.back().y)}};
  if (!run.evaluations.empty()) {
    const actors::EvalReport& last = run.evaluations.back();
    facts.push_back({.name = "evaluation",
                     .value = fmt::format("{:.4f}", last.loss),
                     .more = fmt::format("at step {}", last.step)});
  }
  facts.push_back({.name = "tokens/s",
                   .value = grouped(std::llround(step.tokens_per_s())),
                   .more = span_text(step.step_s) + " a step"});
  facts.push_back({.name = "gradient norm",
                   .value = fmt::format("{:.3f}", step.grad_norm),
                   .more = fmt::format("learning rate {:.3g}", step.lr)});
  if (std::isfinite(step.mfu))
    facts.push_back({.name = "of the peak rate",
                     .value = fmt::format("{:.1f} %", 100 * step.mfu),
                     .more = "model FLOP/s"});
  return fact_list(facts);
}

Axis steps_of(const Curve& curve, int num_ticks) {
  return counting_axis(curve.raw.front().x - 1, curve.raw.back().x, num_ticks);
}

std::string loss_part(const RunNow& run, const Curve& loss, Scale scale) {
  if (loss.raw.empty()) return paragraph("The curve begins with the first step.");
  const Axis steps = steps_of(loss, 8);
  return loss_chart({{.name = run.name,
                      .training = loss,
                      .evaluations = evaluation_points(run.evaluations)}},
                    steps, scale) +
         history_chart(run.history, steps, run.reached());
}

std::string sources_part(const RunNow& run, const Curve& loss) {
  std::vector<NamedLosses> sources, sets = losses_by_set(run.evaluations);
  for (const SourceNow& source : run.sources)
    sources.push_back(
        {.name = source.name, .losses = source.loss.curve().smooth, .tokens = source.tokens});
  if (sources.empty() && sets.empty()) return "";
  const Axis steps = steps_of(loss, 8);
  return source_chart(std::move(sources), steps) + set_chart(std::move(sets), steps);
}

std::string speed_part(const RunNow& run) {
  const Curve speed = run.speed.curve();
  return speed.raw.empty() ? "" : small_chart("tokens/s", {speed}, steps_of(speed, 4));
}

/// Where the time went, as a bar whose legend has the shares.
std::string time_part(const RunNow& run) {
  const TimeAccount time = run.time_account();
  if (!(time.whole_s > 0)) return "";
  std::string legend;
  for (std::size_t i = 0; i < time.parts.size(); ++i)
    if (const TimeShare& part = time.parts[i]; part.share >= 0.0005)
      legend +=
          element("li", {{"data-hint", part.meaning}},
                  swatch(i) + escaped(fmt::format("{} {:.1f} %", part.name, 100 * part.share)));
  return text_element("h3", {}, "where the time went") + time_bar(time) +
         element("ul", {{"class", "legend"}}, legend);
}

std::string hosts_part(const RunNow& run) {
  const std::string table = hosts_markup(run.hosts());
  return table.empty() ? "" : text_element("h2", {}, "Hosts") + table;
}

/// The newest events first.
std::string events_part(const RunNow& run, bool routine) {
  std::vector<TimelineEntry> all(run.timeline.begin(), run.timeline.end());
  if (routine) all.insert(all.end(), run.routine.begin(), run.routine.end());
  std::ranges::stable_sort(all, std::greater(), &TimelineEntry::time);
  return timeline_markup(all);
}

}  // namespace

std::map<std::string, std::string> parts_of(const RunNow& run, const View& view) {
  const Curve loss = run.loss.curve();
  std::map<std::string, std::string> parts{
      {"head", head(run)},
      {"facts", facts(run, loss)},
      {"loss", loss_part(run, loss, view.scale)},
      {"sources", sources_part(run, loss)},
      {"speed", speed_part(run)},
      {"time", time_part(run)},
      {"mesh", mesh_picture(run)},
      {"step", run.picture ? step_markup(*run.picture, run.advice)
                           : paragraph("A step is recorded while somebody looks.")},
      {"events", events_part(run, view.routine)}};
  if (const std::string hosts = hosts_part(run); !hosts.empty()) parts["hosts"] = hosts;
  if (const std::string routers = router_table(run.routers); !routers.empty())
    parts["experts"] = routers;
  return parts;
}

}  // namespace troupe::launch
