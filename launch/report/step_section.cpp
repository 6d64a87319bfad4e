#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "launch/charts/markup.h"
#include "launch/charts/plot.h"
#include "launch/charts/stacked_bar.h"
#include "launch/host/quantities.h"
#include "launch/manifest/resolve/run_spec.h"
#include "launch/report/layout_advice.h"
#include "launch/report/run_page.h"

// A step, rank by rank.

namespace troupe::launch {
namespace {

using schedules::Op;

/// More ranks than a reader looks at are drawn as one replica.
constexpr std::size_t kMostRows = 32;

constexpr double kRow = 24;
constexpr double kBox = 20;
constexpr double kBottom = 22;
constexpr double kLeastWait = 0.5;   // a lower part of a box is not drawn
constexpr double kLabelled = 0.022;  // a box with this share of the width shows its microbatch

struct ActionName {
  Op op;
  const char* name;
};
constexpr std::array kKinds{ActionName{Op::F, "forward"}, ActionName{Op::B, "backward"},
                            ActionName{Op::I, "input gradient"},
                            ActionName{Op::W, "weight gradient"}};

std::string hint_of(const RankRow& row, const TimedAction& a) {
  std::string text =
      fmt::format("rank {}, {}: {}, from {} on", row.rank, schedules::to_string(a.action),
                  span_text(a.length_s()), span_text(a.begin_s));
  if (a.collective_s > 0)
    text += fmt::format(", of which it waited {} for collectives", span_text(a.collective_s));
  return text;
}

/// The wait before an action, from the end of the one before it; empty if it did not wait.
std::string wait_before(const RankRow& row, std::size_t i, double top, double length_s) {
  const TimedAction& a = row.actions[i];
  const auto waits_from = row.wait_begin_s(i);
  if (!waits_from) return "";
  const double begin = *waits_from;
  return box_at(
      {{"class", "wait"}}, begin / length_s, (a.begin_s - begin) / length_s, top, kBox,
      hint(fmt::format("rank {} waits {} for the {} of microbatch {} from rank {}, for {}",
                       row.rank, span_text(a.begin_s - begin),
                       a.action.op == Op::F ? "activations" : "gradients", a.action.microbatch,
                       a.from, schedules::to_string(a.action))));
}

/// Whether another action of the row runs at the same time for longer than times are exact.
bool overlaps(const RankRow& row, std::size_t i) {
  const TimedAction& a = row.actions[i];
  const double least = 0.02 * (a.end_s - a.begin_s);
  const auto with = [&](const TimedAction& b) {
    return std::min(a.end_s, b.end_s) - std::max(a.begin_s, b.begin_s) > least;
  };
  return (i > 0 && with(row.actions[i - 1])) ||
         (i + 1 < row.actions.size() && with(row.actions[i + 1]));
}

std::string box(const RankRow& row, std::size_t i, double top, double length_s) {
  const TimedAction& a = row.actions[i];
  const double from = a.begin_s / length_s, width = a.length_s() / length_s;
  const bool half = overlaps(row, i);
  const double height = half ? kBox / 2 : kBox;
  if (half && a.action.op != Op::F) top += height;
  // When in the action it stood still is not known, so that the area tells how long.
  const double waits = height * a.collective_share();
  std::string content =
      hint(hint_of(row, a)) +
      box_at({{"class", "box"}, {"fill", fill_of(a.action.op)}}, from, width, top, height);
  if (waits >= kLeastWait)
    content += box_at({{"class", "wait in"}}, from, width, top + height - waits, waits);
  if (width >= kLabelled && !half)
    content += label_at(from + width / 2, top + height / 2 + 4, "middle in",
                        std::to_string(a.action.microbatch));
  return element("g", {}, content);
}

std::string gantt_of(const char* title, const std::vector<RankRow>& rows, double length_s) {
  if (rows.empty()) return "";
  return text_element("h3", {}, title) +
         draw_gantt(fmt::format("{}: actions of {} ranks over {}", title, rows.size(),
                                span_text(length_s)),
                    rows, length_s);
}

}  // namespace

std::string draw_gantt(const std::string& label, const std::vector<RankRow>& rows,
                       double length_s) {
  const double bottom = kRow * static_cast<double>(rows.size());
  Plot drawn{.label = label, .height = bottom + kBottom};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double top = kRow * static_cast<double>(i) + 2;
    drawn.names += name_at(top + kBox / 2 + 4, fmt::format("rank {}", rows[i].rank));
    drawn.canvas += element("rect", {{"class", "idle"},
                                     {"x", "0"},
                                     {"width", "100%"},
                                     {"y", number(top)},
                                     {"height", number(kBox)}});
    for (std::size_t a = 0; a < rows[i].actions.size(); ++a)
      drawn.canvas += wait_before(rows[i], a, top, length_s) + box(rows[i], a, top, length_s);
  }
  drawn.canvas += x_ticks(exact_axis(0, 1e3 * length_s, 8), bottom);
  drawn.names += name_at(bottom + 16, "ms");
  return plot(drawn);
}

std::string gantt_legend(const std::vector<RankRow>& rows) {
  std::string items;
  const auto item = [&](Attributes look, const char* name) {
    look.insert(look.end(), {{"width", "24"}, {"height", "12"}});
    items += legend_item(element("rect", look), name);
  };
  for (const ActionName& kind : kKinds)
    if (has_action(rows, kind.op)) item({{"fill", fill_of(kind.op)}}, kind.name);
  item({{"class", "wait"}}, "waiting for a message");
  if (std::ranges::any_of(rows, [](const RankRow& row) { return row.collective_s() > 0; }))
    item({{"class", "wait in"}}, "of an action, waiting for collectives");
  return element("ul", {{"class", "legend"}}, items);
}

std::string step_section(const RunReport& run) {
  if (!run.step) return "";
  const std::string advice = layout_advice(*run.step, to_run_spec(run.manifest));
  return section("A step, rank by rank", step_markup(*run.step, advice));
}

std::string step_markup(const StepPicture& picture, const std::string& advice) {
  std::vector<RankRow> shown = picture.measured;
  std::string note;
  if (shown.size() > kMostRows) {
    std::erase_if(shown, [](const RankRow& row) { return row.replica > 0 || row.shard > 0; });
    note = " Drawn are the first shards of the first replica.";
  }
  const double length = std::max(picture.measured_s(), picture.predicted_s());
  return paragraph(in_words(picture) + advice + note) + gantt_legend(shown) +
         gantt_of("As measured", shown, length) +
         gantt_of("As the simulator expects it", picture.predicted, length);
}

}  // namespace troupe::launch
