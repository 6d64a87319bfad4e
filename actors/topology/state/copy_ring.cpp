#include "actors/topology/state/copy_ring.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tensor/errors/error.h"

namespace troupe::actors {

bool is_copied(const ClusterShape& shape, int rank) {
  return shape.mesh.is_even() || shape.mesh.width(place_of(shape.mesh, rank).stage).dp == 1;
}

int CopyRing::keeper_of(const ClusterShape& shape, int rank) const {
  if (!is_copied(shape, rank)) return -1;
  const auto found = keepers.find(rank);
  return found == keepers.end() ? neighbour_of(shape, rank, 1) : found->second;
}

int CopyRing::source_of(const ClusterShape& shape, int rank) const {
  const auto found =
      std::ranges::find(keepers, rank, [](const auto& entry) { return entry.second; });
  if (found != keepers.end()) return found->first;
  const int before = neighbour_of(shape, rank, -1);
  return keepers.empty() && is_copied(shape, before) ? before : -1;
}

CopyRing CopyRing::for_rank(const ClusterShape& shape, int rank) const {
  if (keepers.empty()) return {};
  CopyRing known{.keepers = {{rank, keeper_of(shape, rank)}}};  // -1 too: the ring is not empty
  if (const int source = source_of(shape, rank); source >= 0) known.keepers[source] = rank;
  return known;
}

namespace {

/// Where some ranks alone are copied: each to the next rank on another host that keeps none yet,
/// or, if there is none, to the next one on its own.
CopyRing ring_of_some(const ClusterShape& shape, std::span<const int> host_of_rank) {
  CopyRing ring;
  std::set<int> keepers;
  const auto host_of = [&](int rank) { return host_of_rank[static_cast<std::size_t>(rank)]; };
  const int ranks = shape.num_ranks();
  for (int rank = 0; rank < ranks; ++rank) {
    if (!is_copied(shape, rank)) continue;
    int keeper = -1;
    for (int i = 1; i < ranks && (keeper < 0 || host_of(keeper) == host_of(rank)); ++i) {
      const int next = neighbour_of(shape, rank, i);
      if (keepers.contains(next)) continue;
      if (keeper < 0 || host_of(next) != host_of(rank)) keeper = next;
    }
    // The last one may find but itself: it changes places with the one before.
    if (keeper < 0) keeper = std::exchange(ring.keepers.begin()->second, rank);
    ring.keepers[rank] = keeper;
    keepers.insert(keeper);
  }
  return ring;
}

}  // namespace

CopyRing copy_ring(const ClusterShape& shape, std::span<const int> host_of_rank) {
  const auto num_ranks = static_cast<std::size_t>(shape.num_ranks());
  TROUPE_ASSERT(host_of_rank.size() == num_ranks);
  const auto host_of = [&](int rank) { return host_of_rank[static_cast<std::size_t>(rank)]; };
  std::vector<int> order(num_ranks);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, host_of);
  std::size_t largest = 0;
  for (std::size_t begin = 0, end = 0; begin < num_ranks; begin = end) {
    while (end < num_ranks && host_of(order[end]) == host_of(order[begin])) ++end;
    largest = std::max(largest, end - begin);
  }
  CopyRing ring;
  if (largest == num_ranks) return ring;
  if (!shape.mesh.is_even()) return ring_of_some(shape, host_of_rank);
  // Ranks of a host are a block of the order. Moved on by the largest block, no block meets itself,
  // unless the largest is more than half of all and wraps around to its own begin.
  for (std::size_t i = 0; i < num_ranks; ++i)
    ring.keepers[order[i]] = order[(i + largest) % num_ranks];
  return ring;
}

CopyRing copy_ring(const Configuration& configuration) {
  std::map<std::string, int> numbers;  // of hosts, in the order of their first ranks
  std::vector<int> host_of_rank;
  for (int rank = 0; rank < configuration.num_ranks(); ++rank)
    host_of_rank.push_back(
        numbers.emplace(configuration.members.at(rank).host, static_cast<int>(numbers.size()))
            .first->second);
  return copy_ring(configuration.shape, host_of_rank);
}

int neighbour_of(const ClusterShape& shape, int rank, int distance) {
  const int pp = shape.mesh.pp, tp = shape.mesh.tp, ranks = shape.num_ranks();
  if (!shape.mesh.is_even()) return (rank + distance + ranks) % ranks;
  RankPlace place = place_of(shape.mesh, rank);
  if (pp > 1)
    place.stage = (place.stage + distance + pp) % pp;
  else if (tp > 1)
    place.shard = (place.shard + distance + tp) % tp;
  else
    place.replica = (place.replica + distance + shape.mesh.dp) % shape.mesh.dp;
  return rank_at(shape.mesh, place);
}

}  // namespace troupe::actors
