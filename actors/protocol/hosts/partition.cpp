#include "actors/protocol/hosts/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace troupe::actors {

std::optional<PartitionVerdict> judge_partition(std::span<const BrokenWay> broken,
                                                const std::map<std::string, int>& ranks,
                                                const std::string& launchers) {
  const auto has_ranks = [&](const std::string& host) {
    const auto found = ranks.find(host);
    return found != ranks.end() && found->second > 0;
  };
  std::map<std::string, std::set<std::string>> out_of_reach;
  for (const BrokenWay& way : broken) {
    if (way.from == way.to || !has_ranks(way.from) || !has_ranks(way.to)) continue;
    out_of_reach[way.from].insert(way.to);
    out_of_reach[way.to].insert(way.from);
  }
  if (out_of_reach.empty()) return std::nullopt;
  const auto weight = [&](const auto& entry) {
    const auto& [host, others] = entry;
    return std::tuple(others.size(), -ranks.at(host), host != launchers, host);
  };
  const auto& [host, others] = *std::ranges::max_element(out_of_reach, {}, weight);
  const std::string& other = *others.begin();
  const auto way = std::ranges::find_if(broken, [&](const BrokenWay& one) {
    return (one.from == host && one.to == other) || (one.from == other && one.to == host);
  });
  return PartitionVerdict{
      .host = host,
      .cause = fmt::format(
          "it and {}{} do not reach each other, though both reach the launcher; "
          "from {} to {}",
          other, others.size() > 1 ? fmt::format(", and {} more,", others.size() - 1) : "",
          way->from, way->how)};
}

}  // namespace troupe::actors
