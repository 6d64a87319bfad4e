#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "launch/charts/markup.h"
#include "launch/charts/stacked_bar.h"
#include "launch/host/quantities.h"
#include "launch/report/run_page.h"

// Where the time of a run went.

namespace troupe::launch {
namespace {

std::string percent_text(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

/// What each rank did in the steps of the newest shape.
std::string rank_table(const Metrics& metrics) {
  Table table{.caption = "What each rank did",
              .head = {"replica", "stage", "shard", "computing", "waiting for stages",
                       "waiting for shards", "share of its steps"},
              .numbers = {0, 1, 2, 3, 4, 5}};
  const bool gpus = fullest_gpu(metrics) != nullptr;
  if (gpus) table.head.push_back("GPU memory, at most");
  for (const RankTimes& rank : metrics.ranks) {
    const double whole = rank.busy_s + rank.idle_s;
    if (!(whole > 0)) continue;
    const double busy = rank.busy_s / whole, shards = rank.collective_s / whole;
    const double waits = std::max(0.0, 1 - busy - shards);
    const std::string bar = stacked_bar(
        fmt::format("replica {}, stage {}, shard {}", rank.replica, rank.stage, rank.shard),
        {{.name = "computing", .value = busy, .text = percent_text(busy)},
         {.name = "waiting for stages", .value = waits, .text = percent_text(waits)},
         {.name = "waiting for shards", .value = shards, .text = percent_text(shards)}},
        1);
    table.rows.push_back({std::to_string(rank.replica), std::to_string(rank.stage),
                          std::to_string(rank.shard), percent_text(busy), percent_text(waits),
                          percent_text(shards), bar});
    if (gpus)
      table.rows.back().push_back(fmt::format("{} of {}", bytes_text(rank.device_used_bytes),
                                              bytes_text(rank.device_total_bytes)));
  }
  return element("details", {},
                 text_element("summary", {},
                              fmt::format("Rank by rank, over the newest {} steps of this shape",
                                          metrics.num_summed)) +
                     draw_table(table));
}

/// How much of the waits is the schedule's own; empty if that is not known.
std::string bubble_text(const RunReport& run) {
  if (!run.step || run.step->predicted.empty()) return "";
  return fmt::format(
      " Of forwards and backwards, the schedule itself leaves the ranks idle for {}, and the "
      "measured step did for {}: the rest are messages, collectives and ranks that came late.",
      percent_text(idle_share(run.step->predicted)), percent_text(idle_share(run.step->measured)));
}

/// What the replicas' communication costs; empty without any.
std::string exposed_text(const RunReport& run) {
  const double exposed = exposed_s(run.metrics);
  if (!(exposed > 0)) return "";
  return fmt::format(" Collectives that complete gradients held up a rank for {} at most.",
                     percent_text(exposed / run.time.whole_s));
}

}  // namespace

std::string time_bar(const TimeAccount& time) {
  std::vector<BarPart> parts;
  for (const TimeShare& part : time.parts)
    parts.push_back({.name = part.name, .value = part.seconds, .text = percent_text(part.share)});
  return stacked_bar("Where the time went", parts, time.whole_s);
}

std::string time_section(const RunReport& run) {
  const double whole = run.time.whole_s;
  if (!(whole > 0)) return "";
  Table table{.caption = "Where the time went",
              .head = {"what the ranks did", "share", "time"},
              .numbers = {1, 2}};
  for (std::size_t i = 0; i < run.time.parts.size(); ++i)
    if (const TimeShare& part = run.time.parts[i]; part.seconds > 0)
      table.rows.push_back(
          {swatch(i) + escaped(part.name) + text_element("small", {}, part.meaning),
           percent_text(part.share), span_text(part.seconds)});
  return section("Where the time went",
                 paragraph(fmt::format("{} in all, on average over the ranks.", span_text(whole)) +
                           exposed_text(run) + bubble_text(run)) +
                     time_bar(run.time) + draw_table(table) + rank_table(run.metrics));
}

}  // namespace troupe::launch
