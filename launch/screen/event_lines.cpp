#include "launch/screen/event_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "launch/control/event_json.h"
#include "launch/report/history.h"
#include "launch/run/run_log.h"

namespace troupe::launch {
namespace {

using namespace actors;

bool is_sign_of_life(const RunEvent& event) {
  return std::holds_alternative<RankActivity>(event.body) ||
         std::holds_alternative<DirectorActivity>(event.body) ||
         std::holds_alternative<ActionsTraced>(event.body);
}

/// Texts come from elsewhere: what is not printable ASCII becomes '?'.
std::string harmless(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text + "\n";
}

}  // namespace

std::string EventLines::line_of(const RunEvent& event) {
  if (is_sign_of_life(event)) return "";
  if (const auto* step = std::get_if<StepCommitted>(&event.body)) {
    const StepReport& report = step->report;
    step_times_.add(report.step_s);
    return step_line(report, max_steps_, step_times_.left_s(max_steps_ - report.step));
  }
  if (const auto* again = std::get_if<StepAgain>(&event.body)) {
    const StepReport& report = again->report;
    step_times_.add(report.step_s);
    return step_again_line(report, again->way,
                           step_times_.left_s(again->way.reached - report.step));
  }
  if (std::holds_alternative<MembershipChanged>(event.body)) step_times_.forget_earlier();
  const TimelineEntry entry = entry_of(to_json(event));
  return harmless(fmt::format("step {}  {}: {}{}", entry.step, entry.title(),
                              entry.rank < 0 ? "" : fmt::format("rank {}, ", entry.rank),
                              entry.sentence()));
}

}  // namespace troupe::launch
