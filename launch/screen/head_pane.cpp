#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "launch/charts/markup.h"
#include "launch/host/quantities.h"
#include "launch/screen/panes.h"

namespace troupe::launch {
namespace {

using Mood = RunNow::Mood;

struct MoodSign {
  const char* mark;
  Look look;
};

/// By Mood.
constexpr std::array kMoodSigns{MoodSign{"\u25cf", Look::live},     // a full circle
                                MoodSign{"\u25b2", Look::waiting},  // a triangle
                                MoodSign{"\u25a0", Look::good},     // a square
                                MoodSign{"\u00d7", Look::bad}};     // a cross

const MoodSign& sign_of(Mood mood) {
  return kMoodSigns[static_cast<std::size_t>(mood)];
}

void draw_state(Canvas& canvas, const RunNow& run) {
  const MoodSign& sign = sign_of(run.mood);
  const std::string state = std::string(sign.mark) + " " + run.state();
  const int of_name = std::min(columns_of(run.name), canvas.width() / 4);
  // Why a run failed may be long.
  const std::string left =
      cut(run.left(), std::max(0, canvas.width() - of_name - columns_of(state) - 6));
  const int end = canvas.width() - columns_of(left);
  int x =
      canvas.text(0, 0, cut(run.name, std::max(8, end - columns_of(state) - 4)), {.bold = true});
  x = canvas.text(x + 2, 0, state, {.look = sign.look, .bold = true});
  const std::string shape = run.shape();
  if (x + 2 + columns_of(shape) < end) canvas.text(x + 2, 0, shape, {.look = Look::soft});
  if (x < end) canvas.text(end, 0, left);
}

void draw_progress(Canvas& canvas, const RunNow& run) {
  const double share =
      run.max_steps > 0
          ? std::clamp(static_cast<double>(run.step()) / static_cast<double>(run.max_steps), 0.0,
                       1.0)
          : 0;
  const std::string text = fmt::format("step {} of {}  {:.0f} %", grouped(run.step()),
                                       grouped(run.max_steps), std::floor(100 * share));
  const int bar = std::max(0, canvas.width() - columns_of(text) - 2);
  const int full = static_cast<int>(std::lround(share * bar));
  canvas.fill(0, full, 1, {.glyph = U'\u2501', .style = {.look = sign_of(run.mood).look}});
  canvas.fill(full, bar, 1, {.glyph = U'\u2500', .style = {.look = Look::soft}});
  canvas.text_before(canvas.width(), 1, text);
}

std::vector<Fact> facts_of(const RunNow& run) {
  if (!run.newest) return {{.name = "no step is done yet", .value = ""}};
  const StepRow& step = *run.newest;
  const Curve loss = run.loss.curve();
  std::vector<Fact> facts{{"loss", fmt::format("{:.4f}", step.loss),
                           run.catch_up ? fmt::format("of step {}", step.step)
                           : loss.smooth.empty()
                               ? ""
                               : fmt::format("smoothed {:.4f}", loss.smooth.back().y)}};
  if (!run.evaluations.empty()) {
    const actors::EvalReport& last = run.evaluations.back();
    if (last.sets.empty()) facts.push_back({"eval", fmt::format("{:.4f}", last.loss)});
    for (const auto& set : last.sets)
      facts.push_back({"eval " + set.name, fmt::format("{:.4f}", set.loss)});
  }
  facts.push_back({"", grouped(std::llround(step.tokens_per_s())) + " tokens/s"});
  facts.push_back({"", span_text(step.step_s), "a step"});
  facts.push_back({"norm", fmt::format("{:.3f}", step.grad_norm)});
  facts.push_back({"lr", fmt::format("{:.3g}", step.lr)});
  if (std::isfinite(step.mfu)) facts.push_back({"mfu", fmt::format("{:.1f} %", 100 * step.mfu)});
  return facts;
}

void draw_facts(Canvas& canvas, const RunNow& run) {
  int x = 0;
  for (const Fact& fact : facts_of(run)) {
    const auto gap = [](const std::string& text) {
      return columns_of(text) + (text.empty() ? 0 : 1);
    };
    if (x + gap(fact.name) + columns_of(fact.value) > canvas.width()) continue;
    if (!fact.name.empty()) x = canvas.text(x, 2, fact.name, {.look = Look::soft}) + 1;
    x = canvas.text(x, 2, fact.value, {.bold = true});
    if (!fact.more.empty() && x + gap(fact.more) <= canvas.width())
      x = canvas.text(x + 1, 2, fact.more, {.look = Look::soft});
    x += 3;
  }
}

/// Where the time went, without what took less than half a percent.
void draw_time(Canvas& canvas, const RunNow& run) {
  const TimeAccount time = run.time_account();
  if (!(time.whole_s > 0)) return;
  int x = canvas.text(0, 3, "time went to", {.look = Look::soft}) + 1;
  for (const TimeShare& part : time.parts) {
    if (part.share < 0.005) continue;
    const std::string percent = fmt::format("{:.0f} %", 100 * part.share);
    if (x + columns_of(part.name) + 1 + columns_of(percent) > canvas.width()) return;
    x = canvas.text(x, 3, part.name, {.look = Look::soft}) + 1;
    x = canvas.text(x, 3, percent) + 2;
  }
}

}  // namespace

void draw_head(Canvas canvas, const RunNow& run) {
  draw_state(canvas, run);
  draw_progress(canvas, run);
  draw_facts(canvas, run);
  draw_time(canvas, run);
}

}  // namespace troupe::launch
