#include "launch/watch/run_now.h"

#include <algorithm>

#include "launch/host/quantities.h"

namespace troupe::launch {

std::string RunNow::state() const {
  if (mood == Mood::ended) return "ended in order";
  return mood == Mood::failed ? "failed" : doing;
}

std::string RunNow::left() const {
  if (ended()) return doing;
  return mood == Mood::working && left_s > 0 ? duration_text(left_s) + " left" : "";
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
