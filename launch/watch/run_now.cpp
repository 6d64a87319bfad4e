#include "launch/watch/run_now.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>
#include <tuple>

#include "launch/host/quantities.h"
#include "schedules/plan/counted.h"

namespace troupe::launch {
namespace {

/// A time as a share of the newest step.
double step_share(const RankNow& rank, double seconds) {
  const double whole = rank.times.busy_s + rank.times.idle_s;
  return whole > 0 ? seconds / whole : 0;
}

}  // namespace

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
  // Whoever came later than the event that names the schedule sees the ranks alone.
  ShapeSpan shape;
  for (const RankNow& rank : ranks) {
    shape.pp = std::max(shape.pp, rank.stage + 1);
    shape.dp = std::max(shape.dp, rank.replica + 1);
    shape.tp = std::max(shape.tp, rank.shard + 1);
  }
  return shape.text();
}

std::vector<actors::HostStatus> RunNow::hosts() const {
  std::vector<actors::HostStatus> hosts = history.hosts;
  std::vector<actors::StepReport::StageTime> times;
  for (const RankNow& rank : ranks) {
    times.push_back(rank.times);
    std::tie(times.back().replica, times.back().stage, times.back().shard) =
        std::tie(rank.replica, rank.stage, rank.shard);  // also before its first step
  }
  actors::count_ranks(hosts, {ranks.begin(), ranks.end()}, times);
  return hosts;
}

std::string host_text(const RunNow& run, const RankNow& rank) {
  return run.history.hosts.size() < 2 ? "" : " on " + rank.host;
}

RankMood mood_of(const RankNow& rank) {
  const auto is = [&](std::initializer_list<std::string_view> states) {
    return std::ranges::find(states, rank.state) != states.end();
  };
  if (is({"lost"})) return RankMood::lost;
  if (!rank.waiting_for.empty() || is({"waiting", "ready", "prepared", "validating", "halted"}))
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
  return step_share(rank, rank.times.busy_s);
}

double collective_share(const RankNow& rank) {
  return step_share(rank, rank.times.collective_s);
}

std::string memory_of(const RankNow& rank) {
  const auto text = [](std::uint64_t bytes) {
    return bytes_text(static_cast<std::int64_t>(bytes));
  };
  if (rank.times.device_total_bytes > 0)
    return text(rank.times.device_used_bytes) + " of " + text(rank.times.device_total_bytes);
  return rank.resident_bytes > 0 ? text(rank.resident_bytes) : "";
}

Mesh mesh_of(const std::vector<RankNow>& ranks) {
  Mesh mesh;
  for (const RankNow& rank : ranks) mesh[rank.replica][rank.stage].push_back(&rank);
  return mesh;
}

int num_stages(const Mesh& mesh) {
  int stages = 0;
  for (const auto& [replica, row] : mesh)
    if (!row.empty()) stages = std::max(stages, row.rbegin()->first + 1);
  return stages;
}

std::optional<Between> between(const Mesh& mesh, int replica, int stage) {
  const auto of_all = [&](int number) {
    StageRanks ranks;
    for (const auto& [other, row] : mesh)
      if (const auto found = row.find(number); found != row.end())
        ranks.insert(ranks.end(), found->second.begin(), found->second.end());
    return ranks;
  };
  const auto& row = mesh.at(replica);
  const auto left = row.find(stage), right = row.find(stage + 1);
  if (left != row.end()) return Between{.left = left->second, .right = of_all(stage + 1)};
  if (right != row.end()) return Between{.left = of_all(stage), .right = right->second};
  return std::nullopt;
}

Flow flow_between(const RunNow& run, const StageRanks& from, const StageRanks& to) {
  const auto among = [](const StageRanks& stage, int rank) {
    return std::ranges::any_of(stage, [&](const RankNow* r) { return r->rank == rank; });
  };
  Flow flow;
  for (const auto& edge : run.edges) {
    if (!among(from, edge.from) || !among(to, edge.to)) continue;
    flow.bytes_per_s += static_cast<double>(edge.bytes) / run.newest->step_s;
    flow.wait_share = std::max(flow.wait_share, edge.wait_s / run.newest->step_s);
  }
  return flow;
}

std::string rate_text(double bytes_per_s) {
  return bytes_text(std::llround(bytes_per_s)) + "/s";
}

}  // namespace troupe::launch
