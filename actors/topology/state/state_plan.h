#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/topology/configuration.h"
#include "actors/topology/state/copy_ring.h"
#include "stages/model/model_config.h"
#include "stages/model/sharding.h"
#include "transport/edges/channel.h"

// Which training state a configuration starts from, and which member gives which part of it to
// which. Pure functions: the director calls them with what the surviving workers hold. State is
// named by unit, never by rank, so that any shape can read any other's.

namespace troupe::actors {

/// Unit 0: the embedding; 1 ... L: the decoder layers; L + 1: final norm and head; L + 2: the table
/// of positions, if the model's kind has one, apart from the embedding because the tied copy of
/// that has none.
int unit_of_layer(int layer, int num_layers);
/// The units a rank of this shape holds, ascending; the tied copy of the embedding included.
std::vector<int> units_of(const RunSpec& spec, const ClusterShape& shape, int rank);

/// Whether the ranks of a shape copy their state to another (CopyRing): they do if nobody has it.
/// Replicas are each other's copies, or twins of each other's slices, but where each holds other
/// experts; so are a rank and its mirror.
bool copies_state(const RunSpec& spec, const ClusterShape& shape);
/// Whether ranks of this mesh do, under a schedule with one copy of the parameters.
bool copies_state(const RunSpec& spec, const RunSpec::Mesh& mesh);

/// The unit that a parameter belongs to.
int unit_of(const stages::ParameterInfo& parameter, const stages::ModelConfig& model);
/// The most tensors of a parameter's training state: the weight and two moments.
inline constexpr int kMostStateTensors = 3;
/// How many a parameter has: the weight alone if it is frozen, and nothing of the base of an
/// adapter, which is read from its files again.
int num_state_tensors(const stages::ParameterInfo& parameter);
/// Elements of a shard's part of the units' training state, with its padding.
std::int64_t size_of_units(std::span<const int> units, const stages::ModelConfig& model,
                           const stages::Sharding& sharding);

/// Elements of what a rank keeps of training state: its units, with their padding, or its parts of
/// them, without, if replicas divide them.
std::int64_t size_of_kept(const RunSpec& spec, const ClusterShape& shape, int rank);

/// State travels in pieces of this many elements at most.
inline constexpr std::int64_t kPieceElements = std::int64_t{1} << 18;
/// Elements of the checksum, 8 bytes, that follows each piece of a neighbour's copy.
inline constexpr std::int64_t kSumElements = 2;
std::int64_t num_pieces(std::int64_t elements);

/// The edges of a rank's copies, between ranks: from the rank whose copy it keeps, and to its own
/// keeper. The odd and the even ones of the copies have an edge each, and with it memory, so that
/// one copy may stay while the other is replaced. A stage without parameters has no such edge.
std::vector<transport::Edge> copy_edges(const RunSpec& spec, const ClusterShape& shape,
                                        const CopyRing& ring, int rank);
/// Which of the two edges carries the copy of a step: 0 or 1, in turn.
int turn_of_copy(const RunSpec& spec, std::int64_t step);
/// The transport::Edge::chunk of the edge that carries a rank's copies of this turn.
int chunk_of_copy(int rank, int turn);

/// A verified copy of a rank's state: another one's, or its own where states between two copies are
/// given up with a lost worker (RunSpec::Recovery::copy_interval).
struct CopyRecord {
  int rank = 0;           ///< the rank whose state it is, in the configuration that it was made in
  std::int64_t step = 0;  ///< updates in the state
  bool operator==(const CopyRecord&) const = default;
};

/// What a worker has in memory of the last configuration that all ranks had reached.
struct StateInventory {
  std::int64_t step = -1;     ///< updates in the worker's own state; -1: it has none
  bool has_previous = false;  ///< it has its state of step - 1 too
  std::vector<CopyRecord> copies;
};

/// The way of one unit of state, or of one part of it. `from` may be `to`: within one worker's
/// memory.
struct StateMove {
  int unit = 0;
  int from = 0;  ///< member of the new configuration
  int to = 0;    ///< rank of the new configuration
  int copy_of =
      -1;  ///< taken from a copy of this rank of the old configuration; -1: from its own state
  int part = 0;  ///< of the old configuration (StateParts)
  bool operator==(const StateMove&) const = default;
};

struct StatePlan {
  std::int64_t step = 0;
  bool from_memory = false;      ///< false: every rank loads it from disk, or initialises it
  ClusterShape kept;             ///< of the old configuration, whose parts are moved
  std::vector<StateMove> moves;  ///< in the order in which all ranks perform them
  /// Ranks whose keeper still holds their copy of this state: it need not travel again.
  std::vector<int> copied;
};

/// The newest state, of step `committed`, the one before or a step that was copied, of which memory
/// still holds every unit; none if there is no such. `inventory` is by incarnation.
std::optional<StatePlan> plan_state(const RunSpec& spec, const Configuration& kept,
                                    const Configuration& next,
                                    const std::map<std::uint64_t, StateInventory>& inventory,
                                    std::int64_t committed);

/// Whether memory has all state of a shape whose ranks are on these hosts, whichever one is lost.
bool survives_loss_of_host(const RunSpec& spec, const ClusterShape& shape,
                           std::span<const int> host_of_rank);

}  // namespace troupe::actors
