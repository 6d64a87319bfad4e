#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/monitors/tensor_summary.h"
#include "actors/topology/reports.h"

// What happens in a run, as its monitors are told. Plain values without CAF types. A kind of event
// is a type in EventBody; its name, for files and for people, stands at the same place in
// kEventNames.

namespace troupe::actors {

/// A step is final. Norms, times of the stages and bytes of the edges are in the report.
struct StepCommitted {
  StepReport report;
};
struct EvaluationDone {
  double loss = 0;
};
struct CheckpointSaved {
  std::string path;
  double duration_s = 0;
};
/// A loss or gradient is infinite or no number.
struct NotFinite {
  std::string where;
};
/// Ranks of a new epoch, by rank.
struct MembershipChanged {
  Pipeline pipeline;
  std::string schedule;
  std::vector<RankStatus> ranks;
};
/// Sign of life of a rank.
struct RankActivity {
  std::string state;
  std::string waiting_for;           ///< the named wait; empty: none
  std::uint64_t resident_bytes = 0;  ///< memory of the worker process
  std::uint64_t mailbox_depth = 0;   ///< messages and orders that wait for its stage actor
  struct Link {
    int to = 0;      ///< rank
    int queued = 0;  ///< tensors that wait for a credit of it
  };
  std::vector<Link> links;
};
/// What the director did since the last such event.
struct DirectorActivity {
  std::uint64_t mailbox_depth = 0;  ///< messages that wait for it
  std::vector<double> handler_s;    ///< time that each event took it, newest last
};
/// Actions of one rank, in order, while somebody traces.
struct ActionsTraced {
  struct Action {
    std::string name;    ///< as in a plan: "2F0"
    double begin_s = 0;  ///< of the machine's monotonic clock
    double end_s = 0;
    int from = -1;        ///< rank whose message it waited for; -1: none
    int to = -1;          ///< rank that got its output; -1: none
    double waited_s = 0;  ///< for the message and for a credit, before begin_s
    double sent_s = 0;    ///< when its output left, before end_s if early; 0: it has none
  };
  std::vector<Action> actions;
  bool complete = false;  ///< the step's last actions of this rank
};
/// A tensor on its way from the event's rank, while somebody taps that edge.
struct TensorTapped {
  int to = 0;  ///< rank
  bool backward = false;
  int microbatch = 0;
  TensorSummary summary;
  std::string file;   ///< where it was dumped; empty: nowhere
  std::string error;  ///< why it could not be
};
/// A stage's time an action has left that of the others.
struct StragglerFound {
  int replica = 0;
  int stage = 0;
  double score = 0;  ///< actors/monitors/straggler.h
  double busy_s = 0;
  double usual_busy_s = 0;
};
/// The first cause of a failure; what it brings about is folded into it.
struct FailureDetected {
  std::string cause;
  double detect_s = 0;
};
/// A part of a recovery or of a planned change has begun: "spawn" (all stop, and who is missing is
/// spawned), "move" (of state, and all is built anew), "first step".
struct PhaseBegun {
  std::string phase;
};
/// The first step after a failure is committed.
struct Recovered {
  std::string cause;
  RecoveryPhases phases;
  double stall_s = 0;  ///< all phases together
};
/// The first step after a planned change is committed.
struct Rescaled {
  std::string cause;  ///< the order: "pp 2 -> 3"
  RecoveryPhases phases;
  double stall_s = 0;
};
struct MonitorAttached {
  std::string who;
};
struct MonitorDetached {
  std::string who;
  std::uint64_t dropped = 0;  ///< events that it was too slow for
};
/// A line for people.
struct Note {
  std::string text;
};
struct RunEnded {
  Outcome outcome;
};

using EventBody = std::variant<StepCommitted, EvaluationDone, CheckpointSaved, NotFinite,
                               MembershipChanged, RankActivity, DirectorActivity, ActionsTraced,
                               TensorTapped, StragglerFound, FailureDetected, PhaseBegun, Recovered,
                               Rescaled, MonitorAttached, MonitorDetached, Note, RunEnded>;

inline constexpr std::size_t kNumEventKinds = std::variant_size_v<EventBody>;
inline constexpr std::array<std::string_view, kNumEventKinds> kEventNames{
    "step",      "evaluation", "checkpoint", "not_finite", "membership", "activity",
    "director",  "actions",    "tensor",     "straggler",  "failure",    "phase",
    "recovered", "rescaled",   "attached",   "detached",   "note",       "ended"};

/// Something that happened.
struct RunEvent {
  std::uint32_t epoch = 0;
  std::int64_t step = -1;  ///< last committed, or what the event is about; -1: the hub sets step
                           ///< and epoch as the newest event had them
  int rank = -1;           ///< -1: no rank in particular
  EventBody body;
  double time = 0;             ///< Unix seconds; set by the hub
  std::uint64_t sequence = 0;  ///< place among all events of the run, from 1; set by the hub
};

inline std::string_view kind_name(const RunEvent& event) {
  return kEventNames[event.body.index()];
}

/// A choice of kinds.
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
