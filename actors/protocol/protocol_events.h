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

// Events that the director's protocol handles, and effects that it orders. Plain values.

namespace troupe::actors {

// --- events

struct Started {};
struct MemberJoined {
  Member member;
};
/// A worker has dropped its step and reports which state it holds.
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
  double move_s = 0;  ///< time until the slowest stage had its state
  /// Where its weights differed from another replica's; empty: nowhere.
  std::string difference;
};
/// All stages of a replica have voted on a step; the numbers are sums over the replica.
struct ReplicaPrepared {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  int replica = 0;
  double loss_sum = 0;
  std::int64_t targets = 0;  ///< of the step in all replicas, as Prepared::targets
  double squared_norm = 0;   ///< of the whole model's gradient, equal in all replicas
  std::string not_finite;    ///< where a loss or gradient is not finite; empty if all are
  /// Whether `not_finite` is of a gradient before the sum over replicas, and so no other replica's.
  bool is_own = false;
};
struct ReplicaSaved {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  int replica = 0;
  std::string error;  ///< why a part is not saved; empty: all are
};
struct ReplicaEvaluated {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  std::int64_t batch = 0;
  int replica = 0;
  double loss_sum = 0;
  std::int64_t targets = 0;  ///< of the batch in all replicas
};
/// The checkpoint that PublishCheckpoint ordered is complete on disk, or could not be written.
struct Published {
  std::int64_t step = 0;
  std::string error;
};
/// A worker process has ended. `cause` is how: "exit code 1", "signal 9 (SIGKILL)".
struct WorkerExited {
  std::uint64_t incarnation = 0;
  bool clean = false;
  bool by_signal = false;
  std::string cause;
  double now_s = 0;  ///< when, on the monotonic clock
};
/// A worker reports, or its silence shows, that it cannot go on. `symptom`: the failure may be a
/// consequence of another worker's death that has not been noticed yet.
struct WorkerFailed {
  std::uint64_t incarnation = 0;
  std::uint32_t epoch = 0;  ///< epoch in which it failed; 0: the worker as a whole has failed
  ErrorKind kind = ErrorKind::internal;
  std::string message;
  bool symptom = false;
  double now_s = 0;
};
/// The director itself has failed.
struct DirectorFailed {
  ErrorKind kind = ErrorKind::internal;
  std::string message;
};
struct ScaleOrdered {
  std::uint64_t order = 0;
  ScaleRequest request;
};
/// A checkpoint of the next step that is committed.
struct SaveOrdered {};
struct StopOrdered {
  std::string reason;
};
struct StopNowOrdered {
  std::string reason;
};
/// The timer of StartTimer has run out; a timer that was replaced is ignored.
struct TimerRang {
  std::uint64_t timer = 0;
  double now_s = 0;
};

using Event =
    std::variant<Started, MemberJoined, MemberHalted, MemberWarm, ReplicaReady, ReplicaPrepared,
                 ReplicaSaved, ReplicaEvaluated, Published, WorkerExited, WorkerFailed,
                 DirectorFailed, ScaleOrdered, SaveOrdered, StopOrdered, StopNowOrdered, TimerRang>;

// --- effects

struct SpawnWorker {
  int id = 0;
  std::uint64_t incarnation = 0;
  int rank = -1;  ///< rank that it is meant for; -1: a spare
};
struct KillWorker {
  std::uint64_t incarnation = 0;
};
/// A worker is lost, or a connection between two of them. Reported once for each loss.
struct ReportWorkerLost {
  int rank = -1;  ///< its rank in the epoch that was running; -1: none
  std::string cause;
  bool has_part = false;  ///< the other workers cannot go on without it
  bool ends_run = false;  ///< the loss ends the run
};
/// An event was impossible, and has changed nothing.
struct ReportRefused {
  std::string sender;
  std::string why;
};
/// Every worker that has joined is to drop what it does and report which state it holds.
struct OrderHalt {
  std::uint32_t epoch = 0;
  std::uint32_t kept = 0;
  std::string reason;
  /// A worker has died, or a connection failed: what was left in connections may spoil them.
  bool reconnect = true;
  std::string change;  ///< the order to change the cluster that the epoch is for; empty: none
};
/// The assigned workers are to prepare for the shape of an order while the steps go on.
struct OrderWarmUp {
  std::uint64_t order = 0;
  ClusterShape shape;
  std::vector<std::uint64_t> assignment;  ///< incarnations by rank of the shape
};
/// A worker without a part is to prepare to take any part.
struct WarmUpSpare {
  std::uint64_t incarnation = 0;
  ClusterShape shape;
};
/// All workers have joined and halted: the epoch, and where its state comes from, are to be handed
/// out.
struct StartEpoch {
  Epoch epoch;
  StatePlan state;
};
/// All ranks have reached the epoch.
struct ReportEpoch {
  double move_s = 0;  ///< time until the slowest replica had its state
};
/// A worker that is no longer needed is to end in order.
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
  std::int64_t targets = 0;  ///< whose mean the loss is
  double grad_norm = 0;
};
struct OrderSave {
  std::int64_t step = 0;
};
/// All replicas have answered a Save: the checkpoint is to be completed, or removed if a part is
/// not written.
struct PublishCheckpoint {
  std::int64_t step = 0;
  std::string error;  ///< why a part is not written; empty: all are
};
/// The run's end does not wait for the checkpoint that is being published, which may stay
/// unfinished.
struct AbandonCheckpoint {};
struct OrderEvaluate {
  std::int64_t step = 0;
  std::int64_t batch = 0;
};
struct ReportEvaluation {
  std::int64_t step = 0;
  double loss = 0;
};
/// A checkpoint could not be made; the run goes on.
struct ReportUnsaved {
  std::int64_t step = 0;
  std::string error;
};
/// The weights of a replica were repaired: they differed from another's.
struct ReportRepair {
  std::string difference;
};
/// The answer to ScaleOrdered. `refused` is why the change was not made; it is empty once the first
/// step of the new shape is committed.
struct AnswerScale {
  std::uint64_t order = 0;
  ErrorKind kind = ErrorKind::usage;
  std::string refused;
};
/// Starts a timer, which replaces the one before it.
struct StartTimer {
  std::uint64_t timer = 0;
  double seconds = 0;
};
/// Every worker is to be asked to end.
struct OrderFinish {
  std::string reason;
};
struct KillWorkers {};
struct End {
  Outcome outcome;
};

using Effect = std::variant<SpawnWorker, KillWorker, ReportWorkerLost, ReportRefused, OrderHalt,
                            OrderWarmUp, WarmUpSpare, StartEpoch, ReportEpoch, OrderLeave,
                            OrderStep, OrderCommit, OrderSave, PublishCheckpoint, AbandonCheckpoint,
                            OrderEvaluate, ReportEvaluation, ReportUnsaved, ReportRepair,
                            AnswerScale, StartTimer, OrderFinish, KillWorkers, End>;

}  // namespace troupe::actors
