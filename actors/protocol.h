#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "actors/epoch.h"
#include "actors/reports.h"
#include "tensor/error.h"

// The director's side of the step transaction and of the cluster's life as a pure state machine:
// events in, effects out, no clock, no I/O, no CAF. The director actor is a shell around it; tests
// drive it event by event. States and messages are drawn in actors/README.md.

namespace troupe::actors {

// --- what happens

struct Started {};
struct MemberJoined {
  Member member;
};
/// All stages of a replica are built, loaded and agree on the plan.
struct ReplicaReady {
  std::uint32_t epoch = 0;
  int replica = 0;
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
};
struct ReplicaEvaluated {
  std::uint32_t epoch = 0;
  std::int64_t step = 0;
  int replica = 0;
  double loss_sum = 0;
};
/// The checkpoint that Publish ordered is complete on disk.
struct Published {
  std::int64_t step = 0;
};
/// A worker process has ended; `cause` says how: "exit code 1", "signal 9 (SIGKILL)".
struct WorkerExited {
  int rank = 0;
  std::uint64_t incarnation = 0;
  bool clean = false;
  std::string cause;
};
/// A stage says, or its connection shows, that it cannot go on. `symptom`: may be the consequence
/// of another rank's death, whose own sign has not arrived yet.
struct RankFailed {
  int rank = 0;
  ErrorKind kind = ErrorKind::internal;
  std::string message;
  bool symptom = false;
};
/// The director itself failed at something (a checkpoint that cannot be written).
struct DirectorFailed {
  ErrorKind kind = ErrorKind::internal;
  std::string message;
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
};

using Event = std::variant<Started, MemberJoined, ReplicaReady, ReplicaPrepared, ReplicaSaved,
                           ReplicaEvaluated, Published, WorkerExited, RankFailed, DirectorFailed,
                           StopOrdered, StopNowOrdered, TimerRang>;

// --- what to do about it

struct SpawnWorker {
  int rank = 0;
  std::uint64_t incarnation = 0;
};
/// Everybody has joined: no more strangers at the door; hand the epoch and its plans out.
struct StartEpoch {
  Epoch epoch;
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
struct PublishCheckpoint {
  std::int64_t step = 0;
};
struct OrderEvaluate {
  std::int64_t step = 0;
};
struct ReportEvaluation {
  std::int64_t step = 0;
  double loss = 0;
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
    std::variant<SpawnWorker, StartEpoch, OrderStep, OrderCommit, OrderSave, PublishCheckpoint,
                 OrderEvaluate, ReportEvaluation, StartTimer, OrderFinish, KillWorkers, End>;

/// Copyable value: on() is the transition function.
class DirectorProtocol {
 public:
  enum class Phase { gathering, preparing, running, saving, publishing, evaluating, ending, ended };

  /// `first_step` updates are in the state that the workers load; a checkpoint of `saved_step` is
  /// already in the run directory (-1: none); `incarnations` are random, one a rank.
  DirectorProtocol(RunSpec spec, std::int64_t first_step, std::int64_t saved_step,
                   std::vector<std::uint64_t> incarnations);

  std::vector<Effect> on(const Event& event);

  Phase phase() const { return phase_; }
  std::int64_t committed() const { return committed_; }
  const Epoch& epoch() const { return epoch_; }
  bool stopping() const { return stop_reason_.has_value() || outcome_.has_value(); }

 private:
  std::vector<Effect> handle(const Started&);
  std::vector<Effect> handle(const MemberJoined& event);
  std::vector<Effect> handle(const ReplicaReady& event);
  std::vector<Effect> handle(const ReplicaPrepared& event);
  std::vector<Effect> handle(const ReplicaSaved& event);
  std::vector<Effect> handle(const ReplicaEvaluated& event);
  std::vector<Effect> handle(const Published& event);
  std::vector<Effect> handle(const WorkerExited& event);
  std::vector<Effect> handle(const RankFailed& event);
  std::vector<Effect> handle(const DirectorFailed& event);
  std::vector<Effect> handle(const StopOrdered& event);
  std::vector<Effect> handle(const StopNowOrdered& event);
  std::vector<Effect> handle(const TimerRang& event);

  bool is_current(std::uint32_t epoch, std::int64_t step, Phase phase) const;
  /// Notes that a replica has answered; true when all have.
  bool all_answered(int replica);
  Effect start_timer(double seconds);
  std::vector<Effect> commit();
  std::vector<Effect> after_commit();
  std::vector<Effect> save();
  std::vector<Effect> evaluate_or_go_on();
  std::vector<Effect> go_on();
  std::vector<Effect> finish(Outcome outcome);
  std::vector<Effect> fail(ErrorKind kind, const std::string& message);
  std::string missing_members() const;

  RunSpec spec_;
  Epoch epoch_;
  Phase phase_ = Phase::gathering;
  std::int64_t committed_ = 0;
  std::int64_t saved_ = -1;           // newest published checkpoint in the run directory
  std::set<int> joined_, alive_;      // ranks
  std::set<int> answered_;            // replicas, in the phase's round
  std::vector<double> replica_loss_;  // of the round
  double squared_norm_ = 0;
  std::string not_finite_;
  std::optional<std::string> stop_reason_;
  std::optional<RankFailed> symptom_;  // waiting for a first cause that may come
  std::optional<Outcome> outcome_;     // decided; the workers are ending
  std::uint64_t timer_ = 0;
};

}  // namespace troupe::actors
