#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "actors/protocol/roster.h"
#include "actors/topology/epoch.h"
#include "actors/topology/scale.h"
#include "actors/topology/state_plan.h"

namespace troupe::actors {

/// Incarnations by rank of a shape; 0: nobody yet.
using RankAssignment = std::vector<std::uint64_t>;

/// A worker for every rank of the target, as far as there are any. A worker that holds a part of
/// `kept`, the last epoch that all ranks reached (number 0: none), keeps its place, so that the
/// least state moves; then come the others, joined ones first.
RankAssignment assign_ranks(const TargetShape& target, const Epoch& kept, const Roster& roster);

/// -1: it has none.
int rank_of(std::uint64_t incarnation, const RankAssignment& assignment);

/// Ranks of an epoch whose workers are gone.
std::set<int> lost_ranks(const Epoch& kept, const Roster& roster);

/// The epoch that is being gathered: its number and shape, the worker of each rank, and what those
/// that were asked to halt have answered. Between two gatherings it keeps the number and the shape,
/// which are those of the running epoch then.
class EpochGathering {
 public:
  explicit EpochGathering(ClusterShape first)
      : target_{.shape = std::move(first), .replicas = {}} {}

  /// The number of the newest epoch, running or not.
  std::uint32_t number() const { return number_; }
  const TargetShape& target() const { return target_; }
  /// Requires that no epoch of another shape is being prepared.
  void aim_at(TargetShape target) { target_ = std::move(target); }

  /// The next epoch is to begin: all who have joined are asked to halt. False if that is nobody.
  bool open(const Roster& roster);
  void on_halted(std::uint64_t incarnation, const StateInventory& inventory);
  /// One that was waited for has come. True if it may have been the last: count() tells. Looking at
  /// all workers after each answer of each would take long where they are many.
  bool one_less() { return --missing_ <= 0; }
  /// Assigns the ranks, and counts who is missing. True: everybody is there and has halted.
  bool count(const Epoch& kept, const Roster& roster);

  const RankAssignment& assignment() const { return assignment_; }
  /// The rank it is assigned; -1: none.
  int rank_of(std::uint64_t incarnation) const;
  /// Workers that are waited for, to join or to halt.
  std::vector<std::uint64_t> missing(const Roster& roster) const;
  /// What those who have halted hold, by incarnation.
  std::map<std::uint64_t, StateInventory> inventories(const Roster& roster) const;
  /// The epoch of the workers that are assigned a rank; beyond the ranks are those that must give
  /// away what they hold of the last one. Requires that count() was true.
  Epoch epoch(const Epoch& kept, const Roster& roster) const;

 private:
  bool is_awaited(std::uint64_t incarnation, const Roster& roster) const;

  std::uint32_t number_ = 0;
  TargetShape target_;
  RankAssignment assignment_;
  std::map<std::uint64_t, std::optional<StateInventory>> answers_;  // of those that were asked
  int missing_ = 0;                                                 // at least so many
};

}  // namespace troupe::actors
