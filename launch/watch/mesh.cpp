#include "launch/watch/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>

#include "launch/host/quantities.h"

namespace troupe::launch {

RankMood mood_of(const RankNow& rank) {
  const auto is = [&](std::initializer_list<std::string_view> states) {
    return std::ranges::find(states, rank.state) != states.end();
  };
  if (is({"lost"})) return RankMood::lost;
  if (!rank.waiting_for.empty() || is({"waiting", "ready", "prepared", "halted"}))
    return RankMood::waits;
  return is({"running", "reducing", "applying", "saving", "evaluating"}) ? RankMood::computes
                                                                         : RankMood::starts;
}

std::string doing_of(const RankNow& rank) {
  if (rank.waiting_for.empty()) return rank.state;
  constexpr std::string_view kFrom = " from ";
  const std::size_t from = rank.waiting_for.rfind(std::string(kFrom) + "rank ");
  if (from == std::string::npos) return "waits for " + rank.waiting_for;
  return fmt::format("waits for {}: {}", rank.waiting_for.substr(from + kFrom.size()),
                     rank.waiting_for.substr(0, from));
}

std::string place_text(const RankNow& rank, bool has_shards) {
  return fmt::format("replica {}, stage {}{}", rank.replica, rank.stage,
                     has_shards ? fmt::format(", shard {}", rank.shard) : "");
}

double busy_share(const RankNow& rank) {
  const double whole = rank.busy_s + rank.idle_s;
  return whole > 0 ? rank.busy_s / whole : 0;
}

double collective_share(const RankNow& rank) {
  const double whole = rank.busy_s + rank.idle_s;
  return whole > 0 ? rank.collective_s / whole : 0;
}

std::string memory_of(const RankNow& rank) {
  if (rank.device_total_bytes > 0)
    return fmt::format("{} of {}", bytes_text(static_cast<std::int64_t>(rank.device_used_bytes)),
                       bytes_text(static_cast<std::int64_t>(rank.device_total_bytes)));
  return rank.resident_bytes > 0 ? bytes_text(static_cast<std::int64_t>(rank.resident_bytes)) : "";
}

Mesh mesh_of(const std::vector<RankNow>& ranks) {
  Mesh mesh;
  for (const RankNow& rank : ranks) mesh[rank.replica][rank.stage].push_back(&rank);
  return mesh;
}

Flow flow_between(const RunNow& run, const StageRanks& from, const StageRanks& to) {
  const auto among = [](const StageRanks& stage, int rank) {
    return std::ranges::any_of(stage, [&](const RankNow* r) { return r->rank == rank; });
  };
  Flow flow;
  for (const EdgeNow& edge : run.edges) {
    if (!among(from, edge.from) || !among(to, edge.to)) continue;
    flow.bytes_per_s += edge.bytes_per_s;
    flow.wait_share = std::max(flow.wait_share, edge.wait_share);
  }
  return flow;
}

std::string rate_text(double bytes_per_s) {
  return bytes_text(std::llround(bytes_per_s)) + "/s";
}

}  // namespace troupe::launch
