#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "actors/epoch.h"
#include "actors/state_plan.h"

// What travels on the control plane: orders from the director to stages, answers back, all small.
// Plain values; the `inspect` functions are what CAF serialises them with. Numbers with a fraction
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

/// A new epoch: connect, build, take the state, answer Ready.
struct BeginEpoch {
  Epoch epoch;
  StatePlan state;
  std::string checkpoint;  ///< directory to load from, if not from memory; empty: fresh weights
  bool weights_only = false;
  std::int64_t sample_origin = 0;  ///< stages::FeedSpec::origin
};

/// The scheduler's plan of whole steps for one rank, ahead of the first of them. Rows are cells
/// joined by commas.
struct PlanOrder {
  std::uint32_t epoch = 0;
  std::string actions;
  std::string eval_actions;
  std::uint64_t digest = 0;  ///< of the whole assembly
};

struct RunStep {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  bool trace = false;  ///< record the actions and send them when the step is prepared
};

struct Commit {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  Bits clip_factor = 0;
};

struct Save {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  std::string dir;  ///< exists; this rank's part goes there
};

struct Evaluate {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
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
  Holdings holdings;
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
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  int rank = 0;
  Bits loss_sum = 0;
  int bad_microbatch = -1;
  std::vector<Bits> squared_norms;  ///< of Ready::parameters
  Bits busy_s = 0;
  Bits wall_s = 0;
  std::vector<std::uint32_t> edge_to;     ///< ranks this one sends to
  std::vector<std::uint64_t> edge_bytes;  ///< sent to each in this step
  std::vector<std::uint32_t> edge_from;   ///< ranks that send to this one
  std::vector<Bits> edge_wait_s;          ///< time it waited for messages of each in this step
};

/// Actions of one step of one rank, in order; a long step takes several messages.
struct TracedActions {
  struct Row {
    std::string name;
    Bits begin_s = 0;  ///< of the machine's monotonic clock
    Bits end_s = 0;
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

struct Saved {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  int rank = 0;
  std::string error;  ///< why it is not saved; empty: it is
};

struct Evaluated {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
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
  std::uint64_t incarnation = 0;
  std::uint64_t progress = 0;  ///< grows with every action that is finished
  Bits longest_action_s = 0;   ///< so far
  std::string state;
  std::string waiting_for;
  std::uint64_t resident_bytes = 0;  ///< memory of its process
  std::uint64_t mailbox_depth = 0;   ///< messages and orders that wait for it
  std::vector<int> edge_to;          ///< Member::id of those it sends to
  std::vector<int> edge_queued;      ///< tensors that wait for a credit of each
};

// --- inspection

#define TROUPE_INSPECT(Type, ...)                                      \
  template <typename Inspector>                                        \
  typename Inspector::result_type inspect(Inspector& f, Type& x) {     \
    return [&](auto&... fields) { return f(fields...); }(__VA_ARGS__); \
  }

TROUPE_INSPECT(Member, x.id, x.incarnation, x.pid, x.host, x.address)
TROUPE_INSPECT(RunSpec::Mesh, x.pp, x.dp)
TROUPE_INSPECT(RunSpec::Schedule, x.kind, x.chunks, x.csv)
TROUPE_INSPECT(Layout::Chunk, x.first_layer, x.end_layer, x.stage)
TROUPE_INSPECT(Layout, x.stages, x.chunks)
TROUPE_INSPECT(Shape, x.mesh, x.schedule, x.layout)
TROUPE_INSPECT(Epoch, x.run, x.number, x.shape, x.members)
TROUPE_INSPECT(StateMove, x.unit, x.from, x.to, x.copy_of)
TROUPE_INSPECT(StatePlan, x.step, x.from_memory, x.moves)
TROUPE_INSPECT(HeldCopy, x.rank, x.step)
TROUPE_INSPECT(Holdings, x.step, x.has_previous, x.copies)
TROUPE_INSPECT(Hello, x.version, x.token)
TROUPE_INSPECT(Join, x.token, x.member)
TROUPE_INSPECT(Welcome, x.manifest)
TROUPE_INSPECT(Halt, x.epoch, x.kept, x.reconnect, x.reason)
TROUPE_INSPECT(Halted, x.epoch, x.incarnation, x.address, x.holdings)
TROUPE_INSPECT(BeginEpoch, x.epoch, x.state, x.checkpoint, x.weights_only, x.sample_origin)
TROUPE_INSPECT(PlanOrder, x.epoch, x.actions, x.eval_actions, x.digest)
TROUPE_INSPECT(RunStep, x.epoch, x.step, x.trace)
TROUPE_INSPECT(Commit, x.epoch, x.step, x.clip_factor)
TROUPE_INSPECT(Save, x.epoch, x.step, x.dir)
TROUPE_INSPECT(Evaluate, x.epoch, x.step)
TROUPE_INSPECT(Finish, x.reason)
TROUPE_INSPECT(Ready, x.epoch, x.rank, x.move_s, x.digest, x.parameters)
TROUPE_INSPECT(Prepared, x.epoch, x.step, x.rank, x.loss_sum, x.bad_microbatch, x.squared_norms,
               x.busy_s, x.wall_s, x.edge_to, x.edge_bytes, x.edge_from, x.edge_wait_s)
TROUPE_INSPECT(TracedActions::Row, x.name, x.begin_s, x.end_s, x.waited_s, x.from, x.to)
TROUPE_INSPECT(TracedActions, x.epoch, x.step, x.rank, x.rows, x.complete)
TROUPE_INSPECT(Saved, x.epoch, x.step, x.rank, x.error)
TROUPE_INSPECT(Evaluated, x.epoch, x.step, x.rank, x.loss_sum)
TROUPE_INSPECT(Failed, x.epoch, x.incarnation, x.kind, x.message)
TROUPE_INSPECT(Heartbeat, x.incarnation, x.progress, x.longest_action_s, x.state, x.waiting_for,
               x.resident_bytes, x.mailbox_depth, x.edge_to, x.edge_queued)

#undef TROUPE_INSPECT

}  // namespace troupe::actors
