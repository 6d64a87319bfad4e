#include "launch/manifest/inputs/host_placement.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

#include "actors/topology/assembly.h"
#include "actors/topology/boundary.h"
#include "actors/topology/state/copy_ring.h"
#include "actors/topology/state/state_parts.h"
#include "actors/topology/state/state_plan.h"

namespace troupe::launch {
namespace {

using actors::RankPlace;

std::size_t index(int number) {
  return static_cast<std::size_t>(number);
}

/// Counts what ranks send each other in a step, by the hosts on which they lie.
class Traffic {
 public:
  Traffic(const std::vector<int>& host_of_rank, std::size_t num_hosts)
      : host_of_rank_(host_of_rank), num_hosts_(num_hosts), bytes_(num_hosts * num_hosts) {}

  void add(int from, int to, double bytes) {
    bytes_[index(host_of_rank_[index(from)]) * num_hosts_ + index(host_of_rank_[index(to)])] +=
        bytes;
  }
  /// Each of the ranks sends each other one so many bytes.
  void add_between(const std::vector<int>& ranks, double bytes) {
    for (const int from : ranks)
      for (const int to : ranks)
        if (from != to) add(from, to, bytes);
  }
  std::vector<HostLink> links() const {
    std::vector<HostLink> links;
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      if (i / num_hosts_ != i % num_hosts_ && bytes_[i] > 0)
        links.push_back({.from = static_cast<int>(i / num_hosts_),
                         .to = static_cast<int>(i % num_hosts_),
                         .bytes = bytes_[i]});
    return links;
  }

 private:
  const std::vector<int>& host_of_rank_;
  const std::size_t num_hosts_;
  std::vector<double> bytes_;  // from each host to each
};

/// Activations and gradients between stages. `links` becomes the stages between which they travel.
void add_edges(const actors::RunSpec& spec, const Placement& placement, Traffic& traffic,
               std::vector<StageLink>& links) {
  const schedules::Plan& plan = placement.plan;
  const double microbatches = static_cast<double>(spec.num_microbatches()) / plan.num_copies;
  std::set<std::tuple<int, int, int>> seen;  // replica and stages
  for (int chunk = 0; chunk < plan.num_chunks(); ++chunk) {
    if (plan.is_first(chunk)) continue;
    const actors::Boundary boundary{.from_stage = plan.rank_of_chunk[index(chunk - 1)],
                                    .to_stage = plan.rank_of_chunk[index(chunk)]};
    if (boundary.from_stage == boundary.to_stage) continue;
    const auto [dp, tp] = spec.mesh.width(boundary.from_stage);
    for (RankPlace a{.stage = boundary.from_stage}; a.replica < dp; ++a.replica) {
      bool over_network = false;
      for (a.shard = 0; a.shard < tp; ++a.shard)
        for (const auto& edge : actors::edges_over(boundary, spec, spec.mesh, a)) {
          const double bytes = static_cast<double>(transport::tensor_bytes(edge)) * microbatches;
          traffic.add(edge.from, edge.to, bytes);
          traffic.add(edge.to, edge.from, bytes);
          over_network = over_network || placement.host_of_rank[index(edge.from)] !=
                                             placement.host_of_rank[index(edge.to)];
        }
      const auto [low, high] = std::minmax(boundary.from_stage, boundary.to_stage);
      if (seen.emplace(a.replica, low, high).second)
        links.push_back(
            {.replica = a.replica, .from = low, .to = high, .over_network = over_network});
    }
  }
}

/// What the replicas of each stage exchange.
void add_replicas(const actors::RunSpec& spec, const actors::ClusterShape& shape,
                  const Placement& placement, Traffic& traffic) {
  for (std::size_t stage = 0; stage < placement.traffic.size(); ++stage) {
    const auto [dp, tp] = spec.mesh.width(static_cast<int>(stage));
    const bool divides = actors::divides_state(spec, shape, static_cast<int>(stage));
    const int instances = divides ? actors::num_instances(spec, dp) : 1;
    for (int shard = 0; shard < tp; ++shard) {
      const auto all = actors::ranks_along(
          spec.mesh, {.stage = static_cast<int>(stage), .shard = shard}, actors::Axis::dp);
      for (const auto& [operation, count, sum] : placement.traffic[stage].collectives) {
        const std::string_view name = operation;
        const auto bytes = static_cast<double>(sum);
        const bool is_between = name == "all-reduce" && instances > 1;
        const int members = is_between ? instances : dp / instances;
        for (int group = 0; group < dp / members; ++group) {
          std::vector<int> ranks;
          for (int i = 0; i < members; ++i)
            ranks.push_back(
                all[index(is_between ? group + i * (dp / members) : group * members + i)]);
          if (name == "all-to-all")  // each forwards a slice to the one that keeps it too
            for (int i = 0; i < members; ++i)
              traffic.add(ranks[index(i)], ranks[index((i + 1) % members)], bytes);
          else
            traffic.add_between(ranks, (name == "all-reduce" ? 2 : 1) * bytes / members);
        }
      }
    }
  }
}

/// What the shards of each stage exchange for their layers.
void add_shards(const actors::RunSpec& spec, const Placement& placement, Traffic& traffic) {
  for (int rank = 0; rank < spec.num_ranks(); ++rank) {
    const RankPlace place = actors::place_of(spec.mesh, rank);
    const int shards = spec.mesh.width(place.stage).tp;
    if (place.shard == 0 && shards > 1)
      traffic.add_between(actors::ranks_along(spec.mesh, place, actors::Axis::tp),
                          placement.ranks[index(rank)].to_shards.count / (shards - 1));
  }
}

/// The gradients that ranks with the same parameters in one replica exchange: mirrors all of
/// theirs, a tied embedding its own.
void add_gradients(const actors::RunSpec& spec, const actors::ClusterShape& shape,
                   Traffic& traffic) {
  const auto bytes_of = [&](const std::vector<int>& units, int rank) {
    return 4.0 / actors::kMostStateTensors *
           static_cast<double>(
               actors::size_of_units(units, spec.model, actors::sharding_of(shape, rank)));
  };
  for (int rank = 0; rank < spec.num_ranks(); ++rank) {
    const int mirror = actors::mirror_of(shape, rank);
    if (mirror >= 0) traffic.add(rank, mirror, bytes_of(actors::units_of(spec, shape, rank), rank));
    const auto tied = actors::tied_ranks_of(spec, shape, actors::place_of(shape.mesh, rank));
    if (!tied.empty() && tied.front() == rank)
      traffic.add_between(tied, 2 * bytes_of({0}, rank) / static_cast<double>(tied.size()));
  }
}

/// The rank from which each gets its state if its own host is lost.
std::vector<HeldCopy> copies_of(const actors::RunSpec& spec, const actors::ClusterShape& shape,
                                const std::vector<int>& host_of_rank) {
  std::vector<HeldCopy> copies;
  const actors::CopyRing ring = actors::copy_ring(shape, host_of_rank);
  for (int rank = 0; rank < shape.num_ranks(); ++rank) {
    const auto add = [&](int copy) { copies.push_back({.rank = rank, .copy_on = copy}); };
    RankPlace place = actors::place_of(shape.mesh, rank);
    const int dp = shape.mesh.width(place.stage).dp;
    const bool divides = actors::divides_state(spec, shape, place.stage);
    if (actors::copies_state(spec, shape) && actors::is_copied(shape, rank)) {
      add(ring.keeper_of(shape, rank));
    } else if (const int mirror = actors::mirror_of(shape, rank); mirror >= 0) {
      add(mirror);
    } else if (divides && actors::num_instances(spec, dp) == 1) {
      if (!actors::state_sharding_of(spec, shape, rank).twins) continue;
      place.replica = (place.replica + 1) % dp;
      add(actors::rank_at(shape.mesh, place));
    } else if (dp > 1) {
      // Replicas, or instances, are each other's copies: the next one on another host, if any is.
      const int step = divides ? dp / actors::num_instances(spec, dp) : 1;
      std::vector<int> others;
      for (int i = step; i < dp; i += step) {
        RankPlace other = place;
        other.replica = (place.replica + i) % dp;
        others.push_back(actors::rank_at(shape.mesh, other));
      }
      const auto away = std::ranges::find_if(others, [&](int other) {
        return host_of_rank[index(other)] != host_of_rank[index(rank)];
      });
      add(away == others.end() ? others.front() : *away);
    }
  }
  return copies;
}

}  // namespace

HostPlacement place_on_hosts(const actors::RunSpec& spec, const Placement& placement) {
  HostPlacement out;
  if (placement.host_of_rank.empty()) return out;
  const std::vector<int>& host_of_rank = placement.host_of_rank;
  for (const actors::Host& host : spec.cluster.hosts) out.hosts.push_back({.host = host});
  for (const RankPlacement& row : placement.ranks) {
    HostShare& share = out.hosts[index(host_of_rank[index(row.rank)])];
    share.ranks.push_back(row.rank);
    share.memory_bytes += row.memory.host_total();
  }
  const actors::ClusterShape shape = actors::first_shape(spec);
  out.copies = copies_of(spec, shape, host_of_rank);
  out.survives = actors::survives_loss_of_host(spec, shape, host_of_rank);
  Traffic traffic(host_of_rank, out.hosts.size());
  add_edges(spec, placement, traffic, out.stage_links);
  add_replicas(spec, shape, placement, traffic);
  add_shards(spec, placement, traffic);
  add_gradients(spec, shape, traffic);
  if (actors::copies_state(spec, shape))
    for (const auto& [rank, keeper] : out.copies)
      if (actors::is_copied(shape, rank))
        traffic.add(rank, keeper,
                    4.0 * static_cast<double>(
                              actors::size_of_units(actors::units_of(spec, shape, rank), spec.model,
                                                    actors::sharding_of(shape, rank))));
  out.links = traffic.links();
  for (const auto& [from, to, bytes] : out.links) {
    out.hosts[index(from)].sent_bytes += bytes;
    out.hosts[index(to)].received_bytes += bytes;
  }
  return out;
}

}  // namespace troupe::launch
