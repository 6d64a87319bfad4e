#include "actors/topology/copy_ring.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "tensor/errors/error.h"

namespace troupe::actors {

int CopyRing::keeper_of(const ClusterShape& shape, int rank) const {
  const auto found = keepers.find(rank);
  return found == keepers.end() ? neighbour_of(shape, rank, 1) : found->second;
}

int CopyRing::source_of(const ClusterShape& shape, int rank) const {
  const auto found =
      std::ranges::find(keepers, rank, [](const auto& entry) { return entry.second; });
  return found == keepers.end() ? neighbour_of(shape, rank, -1) : found->first;
}

CopyRing CopyRing::for_rank(const ClusterShape& shape, int rank) const {
  if (keepers.empty()) return {};
  return {.keepers = {{rank, keeper_of(shape, rank)}, {source_of(shape, rank), rank}}};
}

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
  RankPlace place = place_of(shape.mesh, rank);
  const auto& [pp, dp, tp, sequence_parallel] = shape.mesh;
  if (pp > 1)
    place.stage = (place.stage + distance + pp) % pp;
  else
    place.shard = (place.shard + distance + tp) % tp;
  return rank_at(shape.mesh, place);
}

}  // namespace troupe::actors
