#include "actors/protocol/configuration_gathering.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace troupe::actors {

std::vector<std::uint64_t> idle_workers(const Configuration& kept, const Roster& roster) {
  std::vector<std::pair<std::pair<bool, int>, std::uint64_t>> idle;
  for (const auto& [incarnation, worker] : roster)
    if (kept.rank_of(incarnation) < 0 && !worker.leaving)
      idle.push_back({{!worker.joined, worker.member.id}, incarnation});
  std::ranges::sort(idle);
  std::vector<std::uint64_t> incarnations;
  for (const auto& [order, incarnation] : idle) incarnations.push_back(incarnation);
  return incarnations;
}

std::vector<PlacedWorker> members_left(const Configuration& kept, int replica, const Roster& roster,
                                       const std::set<std::string>& hosts) {
  std::vector<PlacedWorker> left;
  const RunSpec::Mesh& mesh = kept.shape.mesh;
  if (replica >= mesh.dp) return left;
  const int first = first_rank_of(mesh, replica);
  for (int rank = first; rank < first + mesh.ranks_of_replica(replica); ++rank) {
    const std::uint64_t incarnation = kept.members.at(rank).incarnation;
    if (roster.stays(incarnation) &&
        (hosts.empty() || hosts.contains(roster.find(incarnation)->host)))
      left.emplace_back(place_of(mesh, rank), incarnation);
  }
  return left;
}

bool moves_up(const RunSpec::Mesh& mesh, const Configuration& kept,
              const std::vector<PlacedWorker>& there) {
  return mesh.pp < kept.shape.mesh.pp && static_cast<int>(there.size()) <= mesh.ranks_of_replica();
}

/// Those who had a rank, stay, and have none yet: a stage that becomes narrower gives its workers
/// to others.
std::vector<std::uint64_t> members_without_rank(const Configuration& kept, const Roster& roster,
                                                const RankAssignment& assignment,
                                                const std::set<std::string>& hosts) {
  std::vector<std::uint64_t> workers;
  for (int replica = 0; replica < kept.shape.mesh.dp && kept.number > 0; ++replica)
    for (const auto& [place, incarnation] : members_left(kept, replica, roster, hosts))
      if (rank_of(incarnation, assignment) < 0) workers.push_back(incarnation);
  return workers;
}

RankAssignment assign_ranks(const TargetShape& target, const Configuration& kept,
                            const Roster& roster) {
  const RunSpec::Mesh& mesh = target.shape.mesh;
  RankAssignment assignment(static_cast<std::size_t>(mesh.num_ranks()), 0);
  const std::set<std::string> hosts(target.hosts.begin(), target.hosts.end());
  const auto host_of = [&](std::uint64_t incarnation) {
    return hosts.empty() ? std::string() : roster.find(incarnation)->host;
  };
  const auto wanted_at = [&](std::size_t rank) {
    return hosts.empty() ? std::string() : target.hosts[rank];
  };
  // Gives the workers, in their order, to the ranks from `first` on that have none.
  const auto fill = [&](const std::vector<std::uint64_t>& workers, std::size_t first,
                        std::size_t end) {
    std::map<std::string, std::deque<std::uint64_t>> waiting;  // by host
    for (const std::uint64_t worker : workers) waiting[host_of(worker)].push_back(worker);
    for (std::size_t rank = first; rank < end; ++rank) {
      auto& next = waiting[wanted_at(rank)];
      if (assignment[rank] != 0 || next.empty()) continue;
      assignment[rank] = next.front();
      next.pop_front();
    }
  };
  for (int replica = 0; replica < mesh.dp && kept.number > 0; ++replica) {
    const auto there = members_left(kept, target.continued(replica), roster, hosts);
    const auto first = static_cast<std::size_t>(first_rank_of(mesh, replica));
    if (moves_up(mesh, kept, there)) {
      std::vector<std::uint64_t> workers;
      for (const auto& [place, incarnation] : there) workers.push_back(incarnation);
      fill(workers, first, first + static_cast<std::size_t>(mesh.ranks_of_replica(replica)));
      continue;
    }
    for (auto [place, incarnation] : there) {
      place.replica = replica;
      if (!has_place(mesh, place)) continue;
      const auto rank = static_cast<std::size_t>(rank_at(mesh, place));
      if (host_of(incarnation) == wanted_at(rank)) assignment[rank] = incarnation;
    }
  }
  if (!mesh.is_even() || !kept.shape.mesh.is_even())
    fill(members_without_rank(kept, roster, assignment, hosts), 0, assignment.size());
  fill(idle_workers(kept, roster), 0, assignment.size());
  return assignment;
}

int rank_of(std::uint64_t incarnation, const RankAssignment& assignment) {
  const auto found = std::ranges::find(assignment, incarnation);
  return found == assignment.end() ? -1 : static_cast<int>(found - assignment.begin());
}

std::set<int> lost_ranks(const Configuration& kept, const Roster& roster) {
  std::set<int> lost;
  for (int rank = 0; rank < kept.num_ranks() && kept.number > 0; ++rank)
    if (!roster.contains(kept.members.at(rank).incarnation)) lost.insert(rank);
  return lost;
}

bool ConfigurationGathering::open(const Roster& roster) {
  ++number_;
  answers_.clear();
  for (const auto& [incarnation, worker] : roster)
    if (worker.joined) answers_[incarnation].reset();
  return !answers_.empty();
}

void ConfigurationGathering::on_halted(std::uint64_t incarnation, const StateInventory& inventory) {
  answers_[incarnation] = inventory;
}

bool ConfigurationGathering::is_awaited(std::uint64_t incarnation, const Roster& roster) const {
  const auto asked = answers_.find(incarnation);
  return asked != answers_.end() && !asked->second && roster.stays(incarnation);
}

bool ConfigurationGathering::count(const Configuration& kept, const Roster& roster) {
  assignment_ = assign_ranks(target_, kept, roster);
  missing_ = 0;
  for (const auto& [incarnation, answer] : answers_)
    if (is_awaited(incarnation, roster)) ++missing_;
  for (const std::uint64_t incarnation : assignment_)
    if (!roster.has_joined(incarnation)) ++missing_;
  return missing_ == 0;
}

int ConfigurationGathering::rank_of(std::uint64_t incarnation) const {
  return actors::rank_of(incarnation, assignment_);
}

std::vector<std::uint64_t> ConfigurationGathering::missing(const Roster& roster) const {
  std::vector<std::uint64_t> missing;
  for (const auto& [incarnation, worker] : roster)
    if ((!worker.joined && rank_of(incarnation) >= 0) || is_awaited(incarnation, roster))
      missing.push_back(incarnation);
  return missing;
}

std::map<std::uint64_t, StateInventory> ConfigurationGathering::inventories(
    const Roster& roster) const {
  std::map<std::uint64_t, StateInventory> held;
  for (const auto& [incarnation, answer] : answers_)
    if (answer && roster.contains(incarnation)) held[incarnation] = *answer;
  return held;
}

std::int64_t ConfigurationGathering::newest_held(const Roster& roster,
                                                 std::int64_t otherwise) const {
  std::int64_t newest = otherwise;
  for (const auto& [incarnation, held] : inventories(roster)) {
    newest = std::max(newest, held.step);
    for (const CopyRecord& copy : held.copies) newest = std::max(newest, copy.step);
  }
  return newest;
}

Configuration ConfigurationGathering::configuration(const Configuration& kept,
                                                    const Roster& roster) const {
  Configuration next{.run = roster.run(), .number = number_, .shape = target_.shape, .members = {}};
  for (const std::uint64_t incarnation : assignment_)
    next.members.push_back(roster.find(incarnation)->member);
  for (const auto& [rank, member] : kept.members)
    if (roster.stays(member.incarnation) && next.rank_of(member.incarnation) < 0)
      next.members.push_back(roster.find(member.incarnation)->member);
  return next;
}

}  // namespace troupe::actors
