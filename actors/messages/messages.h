#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/messages/enter_epoch.h"
#include "actors/messages/tap_request.h"
#include "actors/topology/epoch.h"
#include "actors/topology/state_plan.h"

// What travels on the control plane: orders from the director to stages, answers back, all small.
// Plain values; message_inspection.h has what CAF serialises them with. Numbers with a fraction
// travel as their bits, because CAF 0.17 cannot encode infinities. Every order and answer carries
// its epoch: another epoch's is ignored.

namespace troupe::actors {

/// A double on the wire.
using Bits = std::uint64_t;
inline Bits to_bits(double x) {
  return std::bit_cast<Bits>(x);
}
inline double to_double(Bits x) {
  return std::bit_cast<double>(x);
}

// --- a worker joins

inline constexpr std::uint32_t kProtocolVersion = 1;

/// A worker's first message; nothing else is looked at before the token is right.
struct Hello {
  std::uint32_t version = kProtocolVersion;
  std::string token;
};

/// The answer: what the worker needs to build itself.
struct Welcome {
  std::string manifest;  ///< resolved manifest text
};

/// The worker's stage actor is ready for orders; its sender is where they go.
struct Join {
  std::string token;
  Member member;
};

// --- orders to a stage

/// Something has happened: drop the step in progress, leave every wait, and answer Halted.
struct Halt {
  std::uint32_t epoch = 0;  ///< that will begin
  /// The last one that all ranks had reached: later state is nobody's.
  std::uint32_t kept = 0;
  /// Somebody has died: connections over shared memory may be blocked by what he left behind, so
  /// that all are made anew.
  bool reconnect = false;
  std::string reason;
};

/// Whom the receiver of the epoch's BeginEpoch, which follows, has to do with, itself included. As
/// many messages as it takes to keep each one small.
struct Peers {
  std::uint32_t epoch = 0;
  std::map<int, Member> members;  ///< by rank
};

/// A new epoch, as far as the receiver has a part in it: connect, build, take the state, answer
/// Ready. The members that it has to do with have come in Peers. The plan of its steps is not on
/// the wire: each rank derives it from the shape.
struct BeginEpoch {
  EpochHeader epoch;
  EpochStart start;
};

/// An order to change the cluster waits for its workers: build the stage of this rank of the new
/// shape, beside whatever is done, and answer Warm.
struct WarmUp {
  std::uint64_t order = 0;
  int rank = 0;
  /// For a spare, whose place is not known, nor asked for by an order: have memory at hand for any.
  bool any_rank = false;
  ClusterShape shape;
};

struct RunStep {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  bool trace = false;            ///< record the actions and send them when the step is prepared
  std::vector<TapRequest> taps;  ///< tensors to look at
};

struct Commit {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  Bits clip_factor = 0;
};

struct Save {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  std::string dir;  ///< this rank's part goes there
};

/// One global batch of the evaluation after a step.
struct Evaluate {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  std::int64_t batch = 0;  ///< from 0
};

/// Close everything and end the process.
struct Finish {
  std::string reason;
};

// --- answers of a stage

struct Halted {
  std::uint32_t epoch = 0;
  std::uint64_t incarnation = 0;
  std::string address;  ///< of its data plane from now on
  StateInventory inventory;
};

/// To WarmUp.
struct Warm {
  std::uint64_t order = 0;
  std::uint64_t incarnation = 0;
  int rank = 0;
};

struct Ready {
  std::uint32_t epoch = 0;
  int rank = 0;
  Bits move_s = 0;  ///< how long the state took to arrive
  std::uint64_t digest = 0;
  std::vector<std::uint32_t> parameters;  ///< canonical numbers of the parameters it owns
};

/// The vote: this rank's gradients of the step are complete.
struct Prepared {
  struct Sent {
    std::uint32_t to = 0;     ///< rank
    std::uint64_t bytes = 0;  ///< in this step
  };
  struct Waited {
    std::uint32_t from = 0;  ///< rank
    Bits wait_s = 0;         ///< for its messages in this step
  };
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  int rank = 0;
  Bits loss_sum = 0;
  int bad_microbatch = -1;
  std::vector<Bits> squared_norms;  ///< of Ready::parameters
  Bits busy_s = 0;
  Bits wall_s = 0;
  std::vector<Sent> sent;      ///< by rank it sends to
  std::vector<Waited> waited;  ///< by rank that sends to it
};

/// Actions of one step of one rank, in order; a long step takes several messages.
struct TracedActions {
  struct Row {
    std::string name;
    Bits begin_s = 0;  ///< of the machine's monotonic clock
    Bits end_s = 0;
    Bits sent_s = 0;
    /// What it took by itself: of a pair, begin to end holds the other's time too.
    Bits busy_s = 0;
    Bits waited_s = 0;
    int from = -1;
    int to = -1;
  };
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  int rank = 0;
  std::vector<Row> rows;
  bool complete = false;  ///< these are the last ones
};

/// A tensor that somebody wanted to look at, as TensorSummary has it.
struct Tapped {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  int rank = 0;
  int to = 0;
  bool backward = false;
  int microbatch = 0;
  std::int64_t elements = 0;
  std::int64_t not_finite = 0;
  Bits norm = 0, mean = 0, min = 0, max = 0;
  std::vector<std::uint64_t> histogram;
  std::string file;   ///< where it was dumped; empty: nowhere
  std::string error;  ///< why it could not be
};

struct Saved {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  int rank = 0;
  std::string error;  ///< why it is not saved; empty: it is
};

struct Evaluated {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  std::int64_t batch = 0;
  int rank = 0;
  Bits loss_sum = 0;
};

/// The worker cannot go on in this epoch. `kind` is an ErrorKind's value.
struct Failed {
  std::uint32_t epoch = 0;
  std::uint64_t incarnation = 0;
  int kind = 0;
  std::string message;
};

/// Sign of life of a stage's own loop, with what it does.
struct Heartbeat {
  struct Link {
    int to = 0;      ///< Member::id
    int queued = 0;  ///< tensors that wait for a credit
  };
  std::uint64_t incarnation = 0;
  std::uint64_t progress = 0;  ///< grows with every action that is finished
  Bits longest_action_s = 0;   ///< so far
  std::string state;
  std::string waiting_for;
  std::uint64_t resident_bytes = 0;  ///< memory of its process
  std::uint64_t saved_bytes = 0;     ///< of its part of the newest checkpoint
  std::uint64_t mailbox_depth = 0;   ///< messages and orders that wait for it
  std::vector<Link> links;           ///< to those it sends to
};

}  // namespace troupe::actors
