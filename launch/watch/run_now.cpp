#include "launch/watch/run_now.h"

#include <fmt/format.h>

#include <algorithm>

#include "launch/host/quantities.h"
#include "schedules/plan/counted.h"

namespace troupe::launch {

std::string RunNow::state() const {
  if (mood == Mood::ended) return "ended in order";
  return mood == Mood::failed ? "failed" : doing;
}

std::string RunNow::left() const {
  if (ended() && history.checkpoints.empty()) return doing;
  if (ended())
    return fmt::format("{}; newest checkpoint: step {}", doing, history.checkpoints.back().step);
  if (mood != Mood::working || left_s <= 0) return "";
  const std::string rest = duration_text(left_s) + " left";
  if (!catch_up) return rest;
  return fmt::format("{} of {} done again, {}",
                     std::max<std::int64_t>(0, step() - catch_up->back_to),
                     schedules::counted(catch_up->reached - catch_up->back_to, "step"), rest);
}

std::string RunNow::shape() const {
  if (!history.shapes.empty()) return history.shapes.back().text();
  if (ranks.empty()) return "";
  ShapeSpan
      shape;  // whoever came later than the event that names the schedule sees the ranks alone
  for (const RankNow& rank : ranks) {
    shape.pp = std::max(shape.pp, rank.stage + 1);
    shape.dp = std::max(shape.dp, rank.replica + 1);
    shape.tp = std::max(shape.tp, rank.shard + 1);
  }
  return shape.text();
}

}  // namespace troupe::launch
