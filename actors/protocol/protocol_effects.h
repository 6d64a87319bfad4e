#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/protocol/hosts/host_table.h"
#include "actors/topology/configuration.h"
#include "actors/topology/reports/reports.h"
#include "actors/topology/state/state_plan.h"
#include "tensor/errors/error.h"

// Effects that the director's protocol orders. Plain values; Evaluate is for every replica, Finish
// for every worker.

namespace troupe::actors {

struct SpawnWorker {
  int id = 0;
  std::uint64_t incarnation = 0;
  std::string host;    ///< on which; empty: this machine, of a run without hosts
  int rank = -1;       ///< rank that it is meant for; -1: a spare
  double delay_s = 0;  ///< how long to wait before, in seconds
  /// UUIDs of the host's GPUs that the worker must not use.
  std::vector<std::string> failed_gpus{};
};
struct KillWorker {
  std::uint64_t incarnation = 0;
};
/// A worker is lost, or a connection between two of them, or a host with all its workers, or the
/// earlier director. Reported once for each loss; of a host only if it had workers, after its
/// ReportHost.
struct ReportWorkerLost {
  int rank = -1;            ///< its rank in the configuration that was running; -1: none
  std::vector<int> others;  ///< further ranks of the host that was lost
  std::string cause;
  bool has_part = false;  ///< the other workers cannot go on without it
  bool ends_run = false;  ///< the loss ends the run
};
/// A host has another state than before.
struct ReportHost {
  std::string host;
  HostState state = HostState::joined;
  std::string cause;  ///< of a loss or a drain
};
/// A change that the run wanted by itself is given up: to grow back, or to leave a drained host.
struct ReportGivenUp {
  std::string change;  ///< as options: "--pp 4"
  std::string why;
};
/// An event, or a message of a worker, was impossible, and has changed nothing.
struct ReportRefused {
  std::string sender;
  std::string why;  ///< "Prepared with rank 9, but ..."
};
/// Every worker that has joined is to halt.
struct OrderHalt {
  Halt halt;
  std::string
      change;  ///< the order to change the cluster that the configuration is for; empty: none
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
/// The state of the configuration that begins next is older than the newest step of the one before
/// it.
struct ReportWentBack {
  CatchUp way;
  bool from_memory = false;
};
/// The run goes on that an earlier director has left. Comes before the first configuration is
/// handed out.
struct ReportTakeOver {
  std::int64_t step = 0;       ///< of the state with which it goes on
  std::int64_t committed = 0;  ///< the newest step that the earlier director has committed
  bool from_memory = false;
};
/// All workers have joined and halted: the configuration, and where its state comes from, are to be
/// handed out.
struct StartConfiguration {
  Configuration configuration;
  StatePlan state;
  bool saves_only = false;  ///< the run has failed: its state is saved, and nothing is computed
};
/// All ranks have reached the configuration.
struct ReportConfiguration {
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
struct ReportEvaluation {
  std::int64_t step = 0;
  std::vector<double> losses;  ///< by evaluation set
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
/// The answer to SaveOrdered. `refused` is why there is no checkpoint; it is empty once the one of
/// `step` is complete.
struct AnswerSave {
  std::uint64_t order = 0;
  std::int64_t step = -1;
  ErrorKind kind = ErrorKind::usage;
  std::string refused;
};
/// Starts a timer, which replaces the one before it.
struct StartTimer {
  std::uint64_t timer = 0;
  double seconds = 0;
};
/// Starts a timer beside the one of StartTimer; it replaces the one of its kind before it.
struct StartGrowTimer {
  std::uint64_t timer = 0;
  double seconds = 0;
};
struct KillWorkers {};
struct End {
  Outcome outcome;
};

using Effect = std::variant<SpawnWorker, KillWorker, ReportWorkerLost, ReportHost, ReportGivenUp,
                            ReportRefused, OrderHalt, OrderWarmUp, WarmUpSpare, ReportWentBack,
                            ReportTakeOver, StartConfiguration, ReportConfiguration, OrderLeave,
                            OrderStep, OrderCommit, OrderSave, PublishCheckpoint, AbandonCheckpoint,
                            Evaluate, ReportEvaluation, ReportUnsaved, ReportRepair, AnswerScale,
                            AnswerSave, StartTimer, StartGrowTimer, Finish, KillWorkers, End>;

}  // namespace troupe::actors
