#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/topology/epoch.h"
#include "stages/model_config.h"
#include "transport/channel.h"

// Which training state an epoch starts from, and who gives what to whom. Pure: the director
// decides it from what the surviving workers say they hold. State is named by unit, never by rank,
// so that any shape can read any other's.

namespace troupe::actors {

/// Unit 0: the embedding; 1 ... L: the decoder layers; L + 1: final norm and head.
int unit_of_layer(int layer, int num_layers);
/// The units a rank of this shape holds, ascending; the tied copy of the embedding included.
std::vector<int> units_of(const RunSpec& spec, const ClusterShape& shape, int rank);

/// Whether the ranks of a shape copy their state to a neighbour: stages do whose state nobody else
/// has. Replicas are each other's copies, and so are a rank and its mirror.
bool copies_state(const RunSpec& spec, const ClusterShape& shape);
/// The rank so many stages behind, of the same replica, in a circle.
int neighbour_of(const ClusterShape& shape, int rank, int distance);

/// The unit that a parameter belongs to.
int unit_of(const stages::ParameterInfo& parameter, const stages::ModelConfig& model);
/// The training state of a parameter: the weight and two moments.
inline constexpr std::int64_t kTensorsOfParameter = 3;
/// Elements of the units' training state together.
std::int64_t size_of_units(std::span<const int> units, const stages::ModelConfig& model);

/// State travels in pieces of this many elements at most.
inline constexpr std::int64_t kPieceElements = std::int64_t{1} << 18;
/// A piece of a neighbour's copy is followed by its checksum: 8 bytes.
inline constexpr std::int64_t kSumElements = 2;
std::int64_t num_pieces(std::int64_t elements);

/// The edges of a rank's copies, in ranks: from the stage before, and to the next. Copies of odd
/// and of even steps have an edge, and with it memory, each: so one may stay while the other goes.
/// None of a stage that holds nothing.
std::vector<transport::Edge> copy_edges(const RunSpec& spec, const ClusterShape& shape, int rank);
/// What tells the edge of a rank's copies of such steps from others: transport::Edge::chunk.
int chunk_of_copy(int rank, std::int64_t step);

/// A verified copy of another rank's state.
struct CopyRecord {
  int rank = 0;           ///< whose, in the epoch it was made in
  std::int64_t step = 0;  ///< updates in it
  bool operator==(const CopyRecord&) const = default;
};

/// What a worker has in memory of the last epoch that all ranks had reached.
struct StateInventory {
  std::int64_t step = -1;     ///< updates in its own state; -1: it has none
  bool has_previous = false;  ///< the state of step - 1 too
  std::vector<CopyRecord> copies;
};

/// One unit's way. `from` may be `to`: out of the worker's own memory.
struct StateMove {
  int unit = 0;
  int from = 0;      ///< member of the new epoch
  int to = 0;        ///< rank of the new epoch
  int copy_of = -1;  ///< out of a copy of this rank of the old epoch; -1: the source's own state
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
/// none if there is no such. `members` are the new epoch's. `inventory` by incarnation.
std::optional<StatePlan> plan_state(const RunSpec& spec, const Epoch& kept, const Epoch& next,
                                    const std::map<std::uint64_t, StateInventory>& inventory,
                                    std::int64_t committed);

}  // namespace troupe::actors
