#include <cstdio>

#include "schedules/draw.h"

namespace troupe::schedules {
namespace {

constexpr double kMicrosecondsPerUnit = 1000;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.12g", value);
  return text;
}

/// Names a track. A rank has two: actions, and the second parts of pairs.
std::string thread_name(int track, const std::string& name) {
  return R"({"name":"thread_name","ph":"M","pid":0,"tid":)" + std::to_string(track) +
         R"(,"args":{"name":")" + name + "\"}}";
}

std::string event(const Action& action, int track, const Simulation::Span& span) {
  return R"({"name":")" + to_string(action) + R"(","cat":")" + static_cast<char>(action.op) +
         R"(","ph":"X","pid":0,"tid":)" + std::to_string(track) + R"(,"ts":)" +
         number(span.start * kMicrosecondsPerUnit) + R"(,"dur":)" +
         number((span.end - span.start) * kMicrosecondsPerUnit) + R"(,"args":{"chunk":)" +
         std::to_string(action.chunk) + R"(,"microbatch":)" + std::to_string(action.microbatch) +
         "}}";
}

}  // namespace

std::string to_trace(const Plan& plan, const Simulation& simulation) {
  std::string out;
  const auto add = [&](const std::string& line) { out += (out.empty() ? "" : ",\n") + line; };
  for (int rank = 0; rank < plan.num_ranks(); ++rank) {
    const std::string title = "rank " + std::to_string(rank);
    add(thread_name(2 * rank, title));
    const std::vector<Action>& order = plan.actions[rank];
    bool second_track = false;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const bool overlaps = i > 0 && order[i - 1].overlaps_next;
      if (overlaps && !second_track) add(thread_name(2 * rank + 1, title + ", overlapped"));
      second_track = second_track || overlaps;
      add(event(order[i], 2 * rank + (overlaps ? 1 : 0), simulation.times[rank][i]));
    }
  }
  return R"({"displayTimeUnit":"ms","traceEvents":[)"
         "\n" +
         out + "\n]}\n";
}

}  // namespace troupe::schedules
