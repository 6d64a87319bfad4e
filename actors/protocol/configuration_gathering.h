#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/protocol/roster.h"
#include "actors/topology/configuration.h"
#include "actors/topology/scale.h"
#include "actors/topology/state/state_plan.h"

namespace troupe::actors {

/// The incarnation of the worker of each rank of a shape; 0: no worker yet.
using RankAssignment = std::vector<std::uint64_t>;

/// The place and incarnation of a worker of a configuration.
using PlacedWorker = std::pair<RankPlace, std::uint64_t>;
/// Who is left of a replica of a configuration, by place; only those on one of `hosts`, if there
/// are any.
std::vector<PlacedWorker> members_left(const Configuration& kept, int replica, const Roster& roster,
                                       const std::set<std::string>& hosts);
/// Whether those who are left of a replica take the first ranks in their order: there are fewer
/// stages than before, and no more of them than ranks.
bool moves_up(const RunSpec::Mesh& mesh, const Configuration& kept,
              const std::vector<PlacedWorker>& there);

/// Assigns a worker to every rank of the target, as long as there are workers. A worker with a rank
/// in `kept`, the last configuration that all ranks reached (number 0: none), keeps its place, so
/// that the least state moves. The ranks that are left go to the other workers, joined ones first.
/// A rank that has a host goes to workers on it alone.
RankAssignment assign_ranks(const TargetShape& target, const Configuration& kept,
                            const Roster& roster);

/// The workers without a part in the configuration that stay, joined ones first, in the order of
/// their ids.
std::vector<std::uint64_t> idle_workers(const Configuration& kept, const Roster& roster);

/// The rank that is assigned to a worker; -1: none.
int rank_of(std::uint64_t incarnation, const RankAssignment& assignment);

/// The ranks of a configuration whose workers are gone.
std::set<int> lost_ranks(const Configuration& kept, const Roster& roster);

/// The configuration that is being gathered: its number and shape, the worker of each rank, and the
/// answers of the workers that were asked to halt. Between two gatherings the number and the shape
/// are those of the configuration that is prepared or running.
class ConfigurationGathering {
 public:
  explicit ConfigurationGathering(ClusterShape first)
      : target_{.shape = std::move(first), .replicas = {}, .hosts = {}} {}

  /// The number of the newest configuration, running or not.
  std::uint32_t number() const { return number_; }
  const TargetShape& target() const { return target_; }
  /// The configurations up to this number were an earlier director's.
  void go_on_after(std::uint32_t number) { number_ = number; }
  /// Sets the shape of the next configuration. Requires that no configuration of another shape is
  /// being prepared.
  void aim_at(TargetShape target) { target_ = std::move(target); }

  /// Begins to gather the next configuration: all workers that have joined are to be asked to halt.
  /// False if no worker has joined.
  bool open(const Roster& roster);
  void on_halted(std::uint64_t incarnation, const StateInventory& inventory);
  /// Notes that a worker that was waited for has joined or halted. True if it may have been the
  /// last; count() tells. Without this, every answer would be work for all workers, which takes
  /// long with many of them.
  bool one_less() { return --missing_ <= 0; }
  /// Assigns the ranks and counts the workers that have not joined or halted yet. True if there are
  /// none.
  bool count(const Configuration& kept, const Roster& roster);

  const RankAssignment& assignment() const { return assignment_; }
  /// The rank that is assigned to a worker; -1: none.
  int rank_of(std::uint64_t incarnation) const;
  /// Workers that must still join or halt.
  std::vector<std::uint64_t> missing(const Roster& roster) const;
  /// The state that halted workers hold, by incarnation.
  std::map<std::uint64_t, StateInventory> inventories(const Roster& roster) const;
  /// The newest step of which a worker that has halted holds any state; `otherwise` if none is
  /// newer.
  std::int64_t newest_held(const Roster& roster, std::int64_t otherwise) const;
  /// The configuration with the assigned workers as members. Beyond the ranks it has the members of
  /// `kept` without a new rank, which give their state away. Requires that count() was true.
  Configuration configuration(const Configuration& kept, const Roster& roster) const;

 private:
  bool is_awaited(std::uint64_t incarnation, const Roster& roster) const;

  std::uint32_t number_ = 0;
  TargetShape target_;
  RankAssignment assignment_;
  // The answers of the workers that were asked to halt; none: not answered yet.
  std::map<std::uint64_t, std::optional<StateInventory>> answers_;
  int missing_ = 0;  // lower bound of the workers that are missing
};

}  // namespace troupe::actors
