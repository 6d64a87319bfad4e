#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/monitors/tensor_summary.h"
#include "actors/monitors/value_histogram.h"
#include "actors/topology/reports/reports.h"

// The events of a run, as its monitors receive them: plain values without CAF types. A kind of
// event is a type in EventBody; its name, for files and for people, is at the same index in
// kEventNames.

namespace troupe::actors {

/// A step is committed. Norms, times of the stages and bytes of the edges are in the report.
struct StepCommitted {
  StepReport report;
};
/// A step that was committed before is computed again, after a recovery went back. No monitor
/// counts it as a step.
struct StepAgain {
  StepReport report;
  CatchUp way;
};
struct EvaluationDone {
  double loss = 0;            ///< on the only set, or the first one
  std::vector<SetLoss> sets;  ///< all, in the manifest's order; none if there is but one
};
struct CheckpointSaved {
  std::string path;
  double duration_s = 0;
};
/// A loss or gradient is infinite or NaN.
struct NotFinite {
  std::string where;
};
/// A new configuration has begun, with this pipeline and schedule and with these ranks in order.
struct MembershipChanged {
  Pipeline pipeline;
  std::string schedule;
  std::vector<RankStatus> ranks;
};
/// A rank's heartbeat.
struct RankActivity {
  std::string state;
  std::string waiting_for;           ///< what the rank waits for; empty: nothing
  std::uint64_t resident_bytes = 0;  ///< memory of the worker process
  AllocatedMemory allocated;         ///< what the rank has allocated
  std::uint64_t mailbox_depth = 0;   ///< messages and orders in its stage actor's mailbox
  struct Link {
    int to = 0;      ///< receiving rank
    int queued = 0;  ///< tensors that wait for a credit of that rank
  };
  std::vector<Link> links;
};
/// The director's activity since the last event of this kind.
struct DirectorActivity {
  std::uint64_t mailbox_depth = 0;  ///< messages in the director's mailbox
  std::vector<double> handler_s;    ///< time that the director took for each event, newest last
};
/// Actions of one rank, in order; published only while a monitor subscribes to them.
struct ActionsTraced {
  struct Action {
    std::string name;    ///< name as in a plan: "2F0"
    /// Time when the host began to queue it: on a device that runs beside the host before begin_s,
    /// and before the end of the action before it if the host did not wait for the device.
    double queued_s = 0;
    double begin_s = 0;  ///< seconds of the monotonic clock of the rank's host
    double end_s = 0;
    int from = -1;        ///< rank whose message the action waited for; -1: none
    int to = -1;          ///< rank that received its output; -1: none
    double waited_s = 0;  ///< time waited for the message and a credit, before begin_s
    /// Time in which it lacked a collective of the shards, and the other action of a pair, too,
    /// could not go on; no part of busy_s.
    double collective_s = 0;
    double sent_s = 0;  ///< time when its output left, which may be before end_s; 0: no output
    /// Time in calls of the stage, without what follows; less than end_s - begin_s if the action is
    /// one of a pair.
    double busy_s = 0;
  };
  /// A collective that completed a bucket of gradients while actions ran, or after them.
  struct Collective {
    std::string group;
    std::string operation;
    int bucket = 0;
    double begin_s = 0;
    double end_s = 0;
  };
  std::vector<Action> actions;
  std::vector<Collective> collectives;
  bool complete = false;  ///< whether these are the rank's last actions of the step
  /// The clock of the rank's host, as of the launcher's; none if it is not known, or all are on one
  /// host. Set by the launcher.
  std::optional<ClockAhead> clock = {};
};
/// A tensor that the event's rank has sent; published only while a monitor taps that edge.
struct TensorTapped {
  int to = 0;  ///< receiving rank
  bool backward = false;
  int microbatch = 0;
  TensorSummary summary;
  std::string file;   ///< file into which it was dumped; empty: none
  std::string error;  ///< why it could not be dumped; empty: it was, or need not be
};
/// Parts of weights and gradients that the event's rank has in a step, which is not committed yet:
/// weights as the step read them, gradients complete and not clipped. Those of all ranks add up to
/// each tensor once.
struct ParametersSeen {
  struct Row {
    std::string tensor;  ///< as the model's files name it
    bool is_gradient = false;
    std::int64_t whole = 0;  ///< elements of the whole tensor
    ValueHistogram part;
  };
  std::vector<Row> rows;
};
/// A stage's busy time is far above the time expected of it.
struct StragglerFound {
  int replica = 0;
  int stage = 0;
  int shard = 0;
  double score = 0;  ///< score as defined in actors/monitors/straggler.h
  double busy_s = 0;
  double usual_busy_s = 0;
};
/// The norm of a bucket of the rank's gradients is above data_parallel.large_grad_norm, before it
/// is added to those of others.
struct LargeGradient {
  int bucket = 0;
  double norm = 0;
};
/// The first cause of a failure; its consequences are not reported separately.
struct FailureDetected {
  std::string cause;
  double detect_s = 0;
};
/// A phase of a recovery or of a planned change has begun: "spawn" (all ranks stop, and missing
/// workers are spawned), "move" (state is moved, and plans, connections and buffers are built
/// anew), "catch up" (steps are computed again), or "first step".
struct PhaseBegun {
  std::string phase;
};
/// A recovery goes back to an older state than the newest step's.
struct WentBack {
  CatchUp way;
  std::string from;  ///< ChangeReport::from
};
/// The first new step after a failure is committed.
struct Recovered {
  std::string cause;
  std::string from;  ///< ChangeReport::from
  RecoveryPhases phases;
  double stall_s = 0;  ///< all phases together
};
/// The first step after a planned change is committed.
struct Rescaled {
  std::string cause;  ///< the order, as "pp 2 -> 3"
  RecoveryPhases phases;
  double stall_s = 0;
};
/// A host of a run over several has joined (`joined`: it has ranks; `spare`: it may get some), is
/// to have none any more (`draining`), or is lost with all its workers.
struct HostChanged {
  std::string host;
  std::string state;
  std::string cause;  ///< of a loss or a drain
};
/// The ranks' groups communicate by another means from the next step on: "staged" through host
/// memory, or "nccl". Never told of a run on CPUs.
struct GroupsChanged {
  std::string collectives;
};
struct MonitorAttached {
  std::string who;
};
struct MonitorDetached {
  std::string who;
  std::uint64_t dropped = 0;  ///< events dropped because it was too slow
};
/// A line for people.
struct Note {
  std::string text;
};
struct RunEnded {
  Outcome outcome;
};

using EventBody =
    std::variant<StepCommitted, StepAgain, EvaluationDone, CheckpointSaved, NotFinite,
                 MembershipChanged, RankActivity, DirectorActivity, ActionsTraced, TensorTapped,
                 ParametersSeen, StragglerFound, LargeGradient, FailureDetected, PhaseBegun,
                 WentBack, Recovered, Rescaled, HostChanged, GroupsChanged, MonitorAttached,
                 MonitorDetached, Note, RunEnded>;

inline constexpr std::size_t kNumEventKinds = std::variant_size_v<EventBody>;
inline constexpr std::array<std::string_view, kNumEventKinds> kEventNames{
    "step",           "step_again", "evaluation", "checkpoint", "not_finite", "membership",
    "activity",       "director",   "actions",    "tensor",     "histograms", "straggler",
    "large_gradient", "failure",    "phase",      "went_back",  "recovered",  "rescaled",
    "host",           "groups",     "attached",   "detached",   "note",       "ended"};

/// An event with its place in the run.
struct RunEvent {
  std::uint32_t configuration = 0;
  /// The newest committed step, or the step that the event is about; -1: the hub sets step and
  /// configuration to those of the newest event.
  std::int64_t step = -1;
  int rank = -1;  ///< rank that the event is about; -1: none
  EventBody body;
  double time = 0;             ///< time in Unix seconds; set by the hub
  std::uint64_t sequence = 0;  ///< number among all events of the run, from 1; set by the hub
};

inline std::string_view kind_name(const RunEvent& event) {
  return kEventNames[event.body.index()];
}

/// A set of kinds of events.
using EventMask = std::bitset<kNumEventKinds>;
inline EventMask all_events() {
  return EventMask{}.set();
}
template <typename... Bodies>
EventMask mask_of() {
  EventMask mask;
  (mask.set(EventBody{Bodies{}}.index()), ...);
  return mask;
}

}  // namespace troupe::actors
