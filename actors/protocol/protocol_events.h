#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/messages/takeover_messages.h"
#include "actors/topology/configuration.h"
#include "actors/topology/scale.h"
#include "tensor/errors/error.h"

// Events that the director's protocol handles. Plain values; Halted and Warm are as workers send
// them.

namespace troupe::actors {

struct Started {};
struct MemberJoined {
  Member member;
};
/// A worker of an earlier director is ready for the orders of this one, with what state it has.
struct MemberAdopted {
  Member member;
  std::uint32_t configuration = 0;  ///< Rejoin::configuration
  std::vector<HeldConfiguration> held;
};
/// All stages of a replica are built, have their state and agree on the plan.
struct ReplicaReady {
  std::uint32_t configuration = 0;
  int replica = 0;
  double move_s = 0;  ///< time until the slowest stage had its state
  /// Where its weights differed from another replica's; empty: nowhere.
  std::string difference;
};
/// All stages of a replica have voted on a step; the numbers are sums over the replica.
struct ReplicaPrepared {
  std::uint32_t configuration = 0;
  std::int64_t step = 0;
  int replica = 0;
  double loss_sum = 0;
  std::int64_t targets = 0;  ///< of the step in all replicas, as Prepared::targets
  double squared_norm = 0;   ///< of the whole model's gradient, equal in all replicas
  std::string not_finite;    ///< where a loss or gradient is not finite; empty if all are
  /// Whether `not_finite` is of a gradient before the sum over replicas, and so no other replica's.
  bool is_own = false;
};
/// All ranks of a replica hold the copies of this step's state that they keep (tells_of_copies()).
struct ReplicaCopied {
  std::uint32_t configuration = 0;
  std::int64_t step = 0;
  int replica = 0;
};
struct ReplicaSaved {
  std::uint32_t configuration = 0;
  std::int64_t step = 0;
  int replica = 0;
  std::string error;      ///< why a part is not saved; empty: all are
  bool for_good = false;  ///< another attempt would fail in the same way
};
struct ReplicaEvaluated {
  std::uint32_t configuration = 0;
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
/// A worker process has ended, or could not be started.
struct WorkerExited {
  std::uint64_t incarnation = 0;
  int exit_code = -1;  ///< -1: it was ended by a signal
  /// "exit code 1: " and the last words of its output, "signal 9 (SIGKILL)", "signal 9 (SIGKILL),
  /// sent by the kernel for lack of memory".
  std::string cause;
  double now_s = 0;  ///< when the kernel reported it, on the monotonic clock
};
/// A worker reports, or its silence shows, that it cannot go on. `symptom`: the failure may be a
/// consequence of another worker's death that has not been noticed yet.
struct WorkerFailed {
  std::uint64_t incarnation = 0;
  std::uint32_t configuration =
      0;  ///< configuration in which it failed; 0: the worker as a whole has failed
  ErrorKind kind = ErrorKind::internal;
  std::string message;
  bool symptom = false;
  bool of_gpu = false;  ///< what failed may be the worker's GPU, if it has one
  double now_s = 0;
};
/// A host of the run is ready for workers: before Started, or anew after it was lost or drained.
/// Workers of an earlier life of the host are lost.
struct HostJoined {
  Host host;
  double ends_s = 0;  ///< when it is taken away, on the monotonic clock; 0: not known
  double now_s = 0;
};
/// A host says nothing any more, or has left. All its workers are lost with it, at once.
struct HostLost {
  std::string name;
  std::string cause;  ///< what follows the host's name and "was lost: "
  double now_s = 0;
};
/// Hosts are to have no rank any more. A run on one machine is to end.
struct HostsDraining {
  std::vector<std::string> names;
  std::string cause;
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
struct SaveOrdered {
  std::uint64_t order = 0;
};
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
/// The timer of StartGrowTimer has run out; a timer that was replaced is ignored.
struct GrowTimerRang {
  std::uint64_t timer = 0;
  double now_s = 0;
};

using Event =
    std::variant<Started, MemberJoined, MemberAdopted, Halted, Warm, ReplicaReady, ReplicaCopied,
                 ReplicaPrepared, ReplicaSaved, ReplicaEvaluated, Published, WorkerExited,
                 WorkerFailed, HostJoined, HostLost, HostsDraining, DirectorFailed, ScaleOrdered,
                 SaveOrdered, StopOrdered, StopNowOrdered, TimerRang, GrowTimerRang>;

}  // namespace troupe::actors
