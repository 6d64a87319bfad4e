#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/topology/epoch.h"

// Which training state an epoch starts from, and who gives what to whom. Pure: the director
// decides it from what the surviving workers say they hold. State is named by unit, never by rank,
// so that any shape can read any other's.

namespace troupe::actors {

/// Unit 0: the embedding; 1 ... L: the decoder layers; L + 1: final norm and head.
int unit_of_layer(int layer, int num_layers);
/// The units a rank of this shape holds, ascending; the tied copy of the embedding included.
std::vector<int> units_of(const RunSpec& spec, const Shape& shape, int rank);

/// Whether the ranks of a shape copy their state to a neighbour: stages do whose state nobody else
/// has. Replicas are each other's copies, and so are a rank and its mirror.
bool copies_state(const RunSpec& spec, const Shape& shape);
/// The rank so many stages behind, of the same replica, in a circle.
int neighbour_of(const Shape& shape, int rank, int distance);

/// A verified copy of another rank's state.
struct HeldCopy {
  int rank = 0;           ///< whose, in the epoch it was made in
  std::int64_t step = 0;  ///< updates in it
  bool operator==(const HeldCopy&) const = default;
};

/// What a worker has in memory of the last epoch that all ranks had reached.
struct Holdings {
  std::int64_t step = -1;     ///< updates in its own state; -1: it has none
  bool has_previous = false;  ///< the state of step - 1 too
  std::vector<HeldCopy> copies;
};

/// One unit's way. `from` may be `to`: out of the worker's own memory.
struct StateMove {
  int unit = 0;
  int from = 0;      ///< member of the new epoch
  int to = 0;        ///< rank of the new epoch
  int copy_of = -1;  ///< out of a copy of this rank of the old epoch; -1: the giver's own state
  bool operator==(const StateMove&) const = default;
};

struct StatePlan {
  std::int64_t step = 0;
  bool from_memory = false;      ///< else every rank loads it from disk, or makes it anew
  std::vector<StateMove> moves;  ///< in the order in which all ranks perform them
  /// Ranks whose next neighbour still holds their copy of this state: it need not travel again.
  std::vector<int> copied;
};

/// The newest state, of step `committed` or the one before, of which memory still holds every unit;
/// none if there is no such. `members` are the new epoch's. `holdings` by incarnation.
std::optional<StatePlan> plan_state(const RunSpec& spec, const Epoch& kept, const Epoch& next,
                                    const std::map<std::uint64_t, Holdings>& holdings,
                                    std::int64_t committed);

}  // namespace troupe::actors
