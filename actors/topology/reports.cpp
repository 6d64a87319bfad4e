#include "actors/topology/reports.h"

#include <fmt/format.h>

namespace troupe::actors {

std::string to_string(const ChangeReport& change, const char* between) {
  std::string what = change.planned ? change.order : change.cause;
  if (change.planned && change.recovery) what += ", and recovered: " + change.cause;
  std::string shapes;
  if (change.planned || change.before != change.after)
    shapes = fmt::format("{0}before: {1}{0}after:  {2}", between, change.before, change.after);
  return fmt::format(
      "{} at step {}: {}; {:.2f} s (notice {:.2f}, decide {:.2f}, gather {:.2f}, move {:.2f}, "
      "rebuild {:.2f}, first step {:.2f}){}",
      change.planned    ? "changed"
      : change.recovery ? "recovered"
                        : "went on",
      change.step, what, change.stall_s, change.detect_s, change.decide_s, change.spawn_s,
      change.move_s, change.rebuild_s, change.first_step_s, shapes);
}

}  // namespace troupe::actors
