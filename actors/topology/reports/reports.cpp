#include "actors/topology/reports/reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "schedules/plan/counted.h"

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

void count_ranks(std::vector<HostStatus>& hosts, const std::vector<RankStatus>& ranks,
                 const std::vector<StepReport::StageTime>& times) {
  std::map<std::tuple<int, int, int>, const StepReport::StageTime*> of_place;
  for (const auto& time : times) of_place[{time.replica, time.stage, time.shard}] = &time;
  std::map<std::string_view, HostStatus*> by_name;
  for (HostStatus& host : hosts) {
    host.ranks.clear();
    host.host_bytes = host.network_bytes = 0;
    by_name[host.host] = &host;
  }
  for (const RankStatus& rank : ranks) {
    const auto host = by_name.find(rank.host);
    if (host == by_name.end()) continue;
    host->second->ranks.push_back(rank.rank);
    const auto time = of_place.find({rank.replica, rank.stage, rank.shard});
    if (time == of_place.end()) continue;
    host->second->host_bytes += time->second->host_bytes;
    host->second->network_bytes += time->second->network_bytes;
  }
}

std::string losses_text(double loss, const std::vector<SetLoss>& sets) {
  if (sets.empty()) return fmt::format("{:.4f}", loss);
  std::string text;
  for (const SetLoss& set : sets)
    text += fmt::format("{}{} {:.4f}", text.empty() ? "" : ", ", set.name, set.loss);
  return text;
}

std::string to_string(const CatchUp& way) {
  return fmt::format("goes back to step {}, {} to compute again", way.back_to,
                     schedules::counted(way.reached - way.back_to, "step"));
}

std::string to_string(const ChangeReport& change, const char* between) {
  const bool ordered = !change.order.empty();
  std::string shapes;
  if (ordered || change.before != change.after)
    shapes = fmt::format("{0}before: {1}{0}after:  {2}", between, change.before, change.after);
  std::string phases;
  for (const PhaseName& phase : kPhaseNames)
    phases += fmt::format("{}{} {:.2f}", phases.empty() ? "" : ", ", phase.name,
                          change.phases.*phase.seconds);
  return fmt::format("{} at step {} from {}: {}; {:.2f} s ({}){}",
                     ordered           ? "changed"
                     : change.recovery ? "recovered"
                                       : "went on",
                     change.step, change.from, ordered ? change.order : change.cause,
                     change.stall_s, phases, shapes);
}

}  // namespace troupe::actors
