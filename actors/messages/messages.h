#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/messages/enter_configuration.h"
#include "actors/messages/step_messages.h"
#include "actors/monitors/tap_request.h"
#include "actors/topology/configuration.h"
#include "actors/topology/reports/allocated_memory.h"
#include "actors/topology/state/state_plan.h"

// The messages of the control plane: orders from the director to stages and their answers, all
// small. They are plain values; message_inspection.h defines how CAF serialises them. Every order
// and answer carries its configuration; one of another configuration is ignored.

namespace troupe::actors {

/// The worker's stage actor is ready for orders; they are sent to the sender of this message.
struct Join {
  std::string token;
  Member member;
};

// --- orders to a stage

/// The order to drop the step in progress, leave every wait and answer Halted, because a new
/// configuration will begin.
struct Halt {
  std::uint32_t configuration = 0;  ///< number of the configuration that will begin
  /// The last configuration that all ranks had reached; state of later configurations counts for
  /// nothing.
  std::uint32_t kept = 0;
  /// A worker has died, or a connection failed: what was left in shared memory may block
  /// connections, so all of them are made anew.
  bool reconnect = false;
  std::string reason;
};

/// Members that the receiver communicates with in a configuration, itself included.
/// BeginConfiguration follows. They are spread over as many messages as it takes to keep each one
/// small.
struct Peers {
  std::uint32_t configuration = 0;
  std::map<int, Member> members;  ///< members by rank
};

/// The moves of state that begin or end at the receiver, in order, after those in earlier messages
/// of this configuration. BeginConfiguration follows. Spread like Peers.
struct Moves {
  std::uint32_t configuration = 0;
  std::vector<StateMove> moves;
};

/// The order to enter a new configuration, with the part of it that concerns the receiver: connect,
/// build, take the state, answer Ready. The members that the receiver communicates with have come
/// in Peers, the moves of its state in Moves, so that there are none in `start`. The plan of the
/// steps is not sent: each rank derives it from the shape.
struct BeginConfiguration {
  ConfigurationHeader configuration;
  ConfigurationStart start;
};

/// The order to prepare for a change of the cluster: build the stage of this rank of the new shape
/// while the steps go on, and answer Warm.
struct WarmUp {
  std::uint64_t order = 0;
  int rank = 0;
  /// True for a spare, while no change is ordered: its rank is not known, so it prepares memory for
  /// any rank.
  bool any_rank = false;
  ClusterShape shape;
};

struct RunStep {
  std::uint32_t configuration = 0;
  std::int64_t step = 0;
  bool trace = false;            ///< record the actions and send them when the step is prepared
  bool own_groups = false;       ///< all ranks are ready: collectives are the devices' own from now
  std::vector<TapRequest> taps;  ///< tensors of the step to look at
};

struct Commit {
  std::uint32_t configuration = 0;
  std::int64_t step = 0;
  double clip_factor = 0;
  // Of the step, for a director that takes over before the launcher has written them down.
  double loss = 0;
  double grad_norm = 0;
  std::int64_t targets = 0;
};

struct Save {
  std::uint32_t configuration = 0;
  std::int64_t step = 0;
  std::string dir;  ///< directory for this rank's part
  /// The run's claim to its directory (stages::Claim).
  std::string owner_file, owner;
};

/// The order to run one global batch of the evaluation after a step.
struct Evaluate {
  std::uint32_t configuration = 0;
  std::int64_t step = 0;
  std::int64_t batch = 0;  ///< number of the batch, from 0
};

/// The order to close everything and end the process.
struct Finish {
  std::string reason;
};

// --- answers of a stage

struct Halted {
  std::uint32_t configuration = 0;
  std::uint64_t incarnation = 0;
  std::string address;  ///< address of the stage's data plane from now on
  StateInventory inventory;
};

/// The answer to WarmUp: the stage is built.
struct Warm {
  std::uint64_t order = 0;
  std::uint64_t incarnation = 0;
  int rank = 0;
};

struct Ready {
  /// How the rank's weights differed from those of its stage that most replicas have.
  struct Difference {
    std::string parameter;  ///< the first that differed; empty: none did
    int count = 0;          ///< parameters that differed
    int reference = 0;      ///< a replica that has the others
  };
  std::uint32_t configuration = 0;
  int rank = 0;
  double move_s = 0;  ///< how long the state took to arrive
  std::uint64_t digest = 0;
  /// Canonical numbers of the parameters that the rank owns.
  std::vector<std::uint32_t> parameters;
  Difference difference;
};

/// This rank holds the state that it keeps a copy of, or keeps none (tells_of_copies()).
struct Copied {
  std::uint32_t configuration = 0;
  std::int64_t step = 0;  ///< updates in that state
  int rank = 0;
};

struct Saved {
  std::uint32_t configuration = 0;
  std::int64_t step = 0;
  int rank = 0;
  std::string error;      ///< why the part is not saved; empty: it is saved
  bool for_good = false;  ///< another attempt would fail in the same way
};

struct Evaluated {
  std::uint32_t configuration = 0;
  std::int64_t step = 0;
  std::int64_t batch = 0;
  int rank = 0;
  double loss_sum = 0;
  std::int64_t targets = 0;  ///< of the batch
};

/// The worker cannot go on in this configuration. `kind` is an ErrorKind's value.
struct Failed {
  std::uint32_t configuration = 0;
  std::uint64_t incarnation = 0;
  int kind = 0;
  std::string message;
  bool of_gpu = false;  ///< by a DeviceError
};

/// The sign of life of a stage actor, with what its worker does.
struct Heartbeat {
  struct Link {
    int to = 0;      ///< Member::id
    int queued = 0;  ///< tensors waiting for a credit
  };
  struct Placed {
    int peer = 0;  ///< Member::id
    transport::EdgePlacement placement = transport::EdgePlacement::host;
  };
  std::uint64_t incarnation = 0;
  std::uint64_t progress = 0;   ///< number that grows with every finished action
  double longest_action_s = 0;  ///< duration of the longest action so far
  std::string state;
  std::string waiting_for;
  std::vector<int> waits_long_for;   ///< Member::id of those for which it has waited for seconds
  std::uint64_t resident_bytes = 0;  ///< resident memory of the worker process
  AllocatedMemory allocated;         ///< of it, what the rank has allocated
  std::uint64_t saved_bytes = 0;     ///< bytes written of its part of the newest checkpoint
  std::uint64_t mailbox_depth = 0;   ///< messages and orders waiting in its queues
  std::vector<Link> links;           ///< connections to the workers that it sends to
  std::vector<Placed> edges;         ///< of a device, where slots of edges with each peer lie
};

}  // namespace troupe::actors
