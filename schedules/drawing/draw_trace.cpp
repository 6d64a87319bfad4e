#include <cstdio>

#include "schedules/drawing/draw.h"
#include "schedules/plan/counted.h"

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
  return concat(R"({"name":"thread_name","ph":"M","pid":0,"tid":)", track, R"(,"args":{"name":")",
                name, "\"}}");
}

/// What takes time on a track; `arguments` are the members of an object.
std::string event(const std::string& name, std::string_view category, int track, double start,
                  double end, const std::string& arguments) {
  return concat(R"({"name":")", name, R"(","cat":")", category, R"(","ph":"X","pid":0,"tid":)",
                track, R"(,"ts":)", number(start * kMicrosecondsPerUnit), R"(,"dur":)",
                number((end - start) * kMicrosecondsPerUnit), R"(,"args":{)", arguments, "}}");
}

std::string event(const Action& action, int track, const Simulation::Span& span) {
  const char op = static_cast<char>(action.op);
  return event(to_string(action), {&op, 1}, track, span.start, span.end,
               concat(R"("chunk":)", action.chunk, R"(,"microbatch":)", action.microbatch));
}

/// A gather of a unit of a chunk's weights: "2F unit 0" is what forwards of chunk 2 read.
std::string event(const Gather& gather, int track) {
  return event(concat(gather.chunk, gather.backward ? 'B' : 'F', " unit ", gather.unit), "gather",
               track, gather.start, gather.end,
               concat(R"("chunk":)", gather.chunk, R"(,"unit":)", gather.unit));
}

/// The tracks of gathers, after those of actions: for forwards, and for backwards.
template <typename Add>
void add_gathers(const Plan& plan, const Simulation& simulation, const Add& add) {
  for (int rank = 0; rank < plan.num_ranks(); ++rank) {
    for (const bool backward : {false, true}) {
      const int track = 2 * plan.num_ranks() + 2 * rank + (backward ? 1 : 0);
      bool named = false;
      for (const Gather& gather : simulation.gathers[rank]) {
        if (gather.backward != backward) continue;
        if (!named)
          add(thread_name(
              track, concat("rank ", rank, ", gathers for ", backward ? "backwards" : "forwards")));
        named = true;
        add(event(gather, track));
      }
    }
  }
}

}  // namespace

std::string to_trace(const Plan& plan, const Simulation& simulation) {
  std::string out;
  const auto add = [&](const std::string& line) { out += (out.empty() ? "" : ",\n") + line; };
  for (int rank = 0; rank < plan.num_ranks(); ++rank) {
    const std::string title = concat("rank ", rank);
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
  add_gathers(plan, simulation, add);
  return R"({"displayTimeUnit":"ms","traceEvents":[)"
         "\n" +
         out + "\n]}\n";
}

}  // namespace troupe::schedules
