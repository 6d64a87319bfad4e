#include "actors/topology/reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace troupe::actors {

std::vector<StepReport::Collectives> StepReport::of_groups(
    const std::vector<Collectives>& of_members) {
  std::vector<Collectives> rows;
  std::map<std::pair<std::string_view, std::string_view>, std::size_t> index;
  for (const Collectives& member : of_members) {
    const auto [known, is_new] = index.try_emplace({member.group, member.operation}, rows.size());
    if (is_new) {
      rows.push_back(member);
      continue;
    }
    Collectives& row = rows[known->second];
    row.count = std::max(row.count, member.count);
    row.bytes = std::max(row.bytes, member.bytes);
    row.time_s = std::max(row.time_s, member.time_s);
    row.exposed_s = std::max(row.exposed_s, member.exposed_s);
  }
  return rows;
}

std::string to_string(const ChangeReport& change, const char* between) {
  std::string what = change.planned ? change.order : change.cause;
  if (change.planned && change.recovery) what += ", and recovered: " + change.cause;
  std::string shapes;
  if (change.planned || change.before != change.after)
    shapes = fmt::format("{0}before: {1}{0}after:  {2}", between, change.before, change.after);
  const RecoveryPhases& p = change.phases;
  return fmt::format(
      "{} at step {} from {}: {}; {:.2f} s (notice {:.2f}, decide {:.2f}, gather {:.2f}, move "
      "{:.2f}, "
      "rebuild {:.2f}, first step {:.2f}){}",
      change.planned    ? "changed"
      : change.recovery ? "recovered"
                        : "went on",
      change.step, change.from, what, change.stall_s, p.detect_s, p.decide_s, p.spawn_s, p.move_s,
      p.rebuild_s, p.first_step_s, shapes);
}

}  // namespace troupe::actors
