#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "actors/topology/epoch.h"
#include "actors/topology/reports.h"
#include "actors/topology/scale.h"
#include "actors/topology/state_plan.h"
#include "tensor/error.h"

// What the director's protocol hears (events) and orders (effects). Plain values.

namespace troupe::actors {

// --- what happens

struct Started {};
struct MemberJoined {
  Member member;
};
/// A worker has dropped its step and says what state it holds.
struct MemberHalted {
  std::uint32_t epoch = 0;
  std::uint64_t incarnation = 0;
  std::string address;
  StateInventory inventory;
};
/// A worker has built its stage of the shape that an order asks for.
struct MemberWarm {
  std::uint64_t order = 0;
  std::uint64_t incarnation = 0;
  int rank = 0;
};
/// All stages of a replica are built, have their state and agree on the plan.
struct ReplicaReady {
  std::uint32_t epoch = 0;
  int replica = 0;
  double move_s = 0;  ///< that the state took to arrive at the slowest of them
};
/// All stages of a replica voted. The numbers are the replica's.
struct ReplicaPrepared {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  int replica = 0;
  double loss_sum = 0;
  double squared_norm = 0;  ///< of the whole model's gradient; equal in all replicas
  std::string not_finite;   ///< where a loss or gradient is not finite; empty if all are
};
struct ReplicaSaved {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  int replica = 0;
  std::string error;  ///< why it is not saved; empty: it is
};
struct ReplicaEvaluated {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  std::int64_t batch = 0;
  int replica = 0;
  double loss_sum = 0;
};
/// The checkpoint that PublishCheckpoint ordered is complete on disk, or could not be written.
struct Published {
  std::int64_t step = 0;
  std::string error;
};
/// A worker process has ended; `cause` says how: "exit code 1", "signal 9 (SIGKILL)".
struct WorkerExited {
  std::uint64_t incarnation = 0;
  bool clean = false;
  bool by_signal = false;
  std::string cause;
  double now_s = 0;  ///< of the monotonic clock
};
/// A worker says, or its silence shows, that it cannot go on. `symptom`: may be the consequence of
/// another one's death, whose own sign has not arrived yet.
struct WorkerFailed {
  std::uint64_t incarnation = 0;
  std::uint32_t epoch = 0;  ///< in which it failed; 0: it has failed as a whole
  ErrorKind kind = ErrorKind::internal;
  std::string message;
  bool symptom = false;
  double now_s = 0;
};
/// The director itself failed.
struct DirectorFailed {
  ErrorKind kind = ErrorKind::internal;
  std::string message;
};
struct ScaleOrdered {
  std::uint64_t order = 0;
  ScaleRequest request;
};
struct StopOrdered {
  std::string reason;
};
struct StopNowOrdered {
  std::string reason;
};
/// The timer of StartTimer has run out; an outdated one is ignored.
struct TimerRang {
  std::uint64_t timer = 0;
  double now_s = 0;
};

using Event =
    std::variant<Started, MemberJoined, MemberHalted, MemberWarm, ReplicaReady, ReplicaPrepared,
                 ReplicaSaved, ReplicaEvaluated, Published, WorkerExited, WorkerFailed,
                 DirectorFailed, ScaleOrdered, StopOrdered, StopNowOrdered, TimerRang>;

// --- what to do about it

struct SpawnWorker {
  int id = 0;
  std::uint64_t incarnation = 0;
  int rank = -1;  ///< it is meant for; -1: a spare
};
struct KillWorker {
  std::uint64_t incarnation = 0;
};
/// A worker of the run is lost, or a connection between two: what happened, once a loss.
struct ReportWorkerLost {
  int rank = -1;  ///< in the epoch that was running; -1: it had none
  std::string cause;
  bool has_part = false;  ///< the others cannot go on as they are
  bool ends_run = false;  ///< it is the reason of the end
};
/// What was heard cannot be, and has changed nothing.
struct ReportRefused {
  std::string sender;
  std::string why;
};
/// Every worker that has joined drops what it does and says what it holds.
struct OrderHalt {
  std::uint32_t epoch = 0;
  std::uint32_t kept = 0;
  std::string reason;
  /// Somebody has died: connections may be spoilt by what he left behind.
  bool reconnect = true;
  std::string change;  ///< the epoch is for this order to change the cluster; empty: for none
};
/// Get ready for the shape that an order asks for, beside the steps.
struct OrderWarmUp {
  std::uint64_t order = 0;
  ClusterShape shape;
  std::vector<std::uint64_t> assignment;  ///< incarnations, by rank of the shape
};
/// A worker without a part prepares to take any.
struct WarmUpSpare {
  std::uint64_t incarnation = 0;
  ClusterShape shape;
};
/// Everybody is there: hand out the epoch and where its state comes from.
struct StartEpoch {
  Epoch epoch;
  StatePlan state;
};
/// All ranks have reached the epoch.
struct ReportEpoch {
  double move_s = 0;  ///< of the slowest replica
};
/// A worker that is no longer needed ends in order.
struct OrderLeave {
  std::uint64_t incarnation = 0;
};
struct OrderStep {
  std::int64_t step = 0;
};
struct OrderCommit {
  std::int64_t step = 0;
  double clip_factor = 1;
  double loss = 0;
  double grad_norm = 0;
};
struct OrderSave {
  std::int64_t step = 0;
};
/// All parts are written: complete the checkpoint; where they are not, remove what there is of it.
struct PublishCheckpoint {
  std::int64_t step = 0;
  std::string error;  ///< why a part is not written; empty: all are
};
/// The end does not wait for the checkpoint that is being published: it may be left unfinished.
struct AbandonCheckpoint {};
struct OrderEvaluate {
  std::int64_t step = 0;
  std::int64_t batch = 0;
};
struct ReportEvaluation {
  std::int64_t step = 0;
  double loss = 0;
};
/// The run goes on.
struct ReportUnsaved {
  std::int64_t step = 0;
  std::string error;
};
/// The answer to ScaleOrdered. `refused` is empty where the first step of the new shape is
/// committed.
struct AnswerScale {
  std::uint64_t order = 0;
  ErrorKind kind = ErrorKind::usage;
  std::string refused;
};
/// Replaces the timer before it.
struct StartTimer {
  std::uint64_t timer = 0;
  double seconds = 0;
};
/// Ask every worker to end.
struct OrderFinish {
  std::string reason;
};
struct KillWorkers {};
struct End {
  Outcome outcome;
};

using Effect =
    std::variant<SpawnWorker, KillWorker, ReportWorkerLost, ReportRefused, OrderHalt, OrderWarmUp,
                 WarmUpSpare, StartEpoch, ReportEpoch, OrderLeave, OrderStep, OrderCommit,
                 OrderSave, PublishCheckpoint, AbandonCheckpoint, OrderEvaluate, ReportEvaluation,
                 ReportUnsaved, AnswerScale, StartTimer, OrderFinish, KillWorkers, End>;

}  // namespace troupe::actors
