#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/protocol/checkpoint_progress.h"
#include "actors/protocol/epoch_gathering.h"
#include "actors/protocol/evaluation_round.h"
#include "actors/protocol/pending_scale.h"
#include "actors/protocol/protocol_events.h"
#include "actors/protocol/replica_answers.h"
#include "actors/protocol/roster.h"
#include "actors/protocol/run_end.h"
#include "actors/protocol/step_votes.h"
#include "actors/protocol/worker_failures.h"

// The director's side of the step transaction, of recovery and of re-scaling as a pure state
// machine: events in, effects out, no clock, no I/O, no CAF. The director actor is a shell around
// it; tests drive it event by event. Its states, the values it is made of and the events that may
// change each are drawn in actors/README.md.

namespace troupe::actors {

/// Copyable value: on() is the transition function.
class DirectorProtocol {
 public:
  enum class Phase { gathering, preparing, running, saving, evaluating, ending, ended };

  struct Start {
    std::int64_t first_step = 0;   ///< updates in the state that the run starts from
    std::int64_t saved_step = -1;  ///< a checkpoint of it is in the run directory; -1: none
    std::uint64_t seed = 0;        ///< incarnations follow from it
  };
  DirectorProtocol(RunSpec spec, const Start& start);

  std::vector<Effect> on(const Event& event);

  Phase phase() const { return phase_; }
  std::int64_t committed() const { return committed_; }
  /// The newest checkpoint in the run directory; -1: none.
  std::int64_t saved() const { return checkpoint_.saved(); }
  /// The epoch that is running or being prepared; number 0 before the first.
  const Epoch& epoch() const { return epoch_; }
  const Roster& roster() const { return roster_; }
  /// "rank 3 (replica 1, stage 1)", or "worker 7" of one without a rank.
  std::string name_of_worker(std::uint64_t incarnation) const;
  /// The checkpoint under way.
  std::optional<std::int64_t> writing() const { return checkpoint_.writing(); }
  /// Batches of the evaluation under way that are done.
  std::optional<std::int64_t> evaluated() const {
    return phase_ == Phase::evaluating ? std::optional(evaluation_.num_done()) : std::nullopt;
  }
  /// An order, a failure or a step that is not finite ends the run soon.
  bool stopping() const { return end_.is_near(); }

 private:
  // protocol_steps.cpp: the step transaction.
  void handle(const ReplicaPrepared& event);
  void handle(const ReplicaSaved& event);
  void handle(const Published& event);
  void handle(const ReplicaEvaluated& event);
  void commit();
  void after_commit();
  void save();
  void evaluate_or_go_on();
  void order_batches();
  void go_on();
  void order_step();
  bool is_over() const;

  // protocol_epochs.cpp: how an epoch begins.
  void handle(const Started& event);
  void handle(const MemberJoined& event);
  void handle(const MemberHalted& event);
  void handle(const ReplicaReady& event);
  void gather(const std::string& reason, bool reconnect = true);
  void begin_if_complete();
  StatePlan choose_state(const Epoch& next) const;
  void settle();
  void spawn_missing(const TargetShape& target);
  void spawn(int rank);
  void keep_spares();
  void dismiss(std::uint64_t incarnation);

  // protocol_failures.cpp: who is lost, and how the run goes on without it.
  void handle(const WorkerExited& event);
  void handle(const WorkerFailed& event);
  void handle(const TimerRang& event);
  void lose(std::uint64_t incarnation, const std::string& how, double now_s);
  void regroup(const std::string& cause, double now_s);
  bool stops_after_failures(const std::string& cause);
  bool shrink_to_survivors();
  void gathering_is_late(double now_s);
  void symptom_is_the_cause(double now_s);

  // protocol_scale.cpp: an order to change the cluster.
  void handle(const ScaleOrdered& event);
  void handle(const MemberWarm& event);
  void warm_up();
  void warm_up_spares();
  void cool_down();
  bool can_scale() const;
  bool is_newcomer(std::uint64_t incarnation) const;
  void lose_newcomer(const std::string& cause, bool has_begun);
  void answer_scale(ErrorKind kind, const std::string& refused);
  bool is_scaling() const { return scale_ && scale_->is_under_way; }

  // protocol_end.cpp: the end.
  void handle(const DirectorFailed& event);
  void handle(const StopOrdered& event);
  void handle(const StopNowOrdered& event);
  void fail(ErrorKind kind, const std::string& message);
  void finish(Outcome outcome);
  void finish_in_order();
  Outcome outcome_of_refused_step(const std::string& end) const;
  void end_if_alone();

  // protocol_checks.cpp: why an event cannot be; nothing where it can.
  std::string fault_in(const MemberHalted& event) const;
  std::string fault_in(const MemberWarm& event) const;
  std::string fault_in(const ReplicaReady& event) const;
  std::string fault_in(const ReplicaPrepared& event) const;
  std::string fault_in(const ReplicaSaved& event) const;
  std::string fault_in(const ReplicaEvaluated& event) const;
  std::string fault_in(const WorkerFailed& event) const;
  template <typename Other>
  std::string fault_in(const Other&) const {
    return "";
  }
  std::string fault_of_epoch(std::uint32_t epoch) const;
  std::string fault_of_replica(std::uint32_t epoch, int replica) const;
  template <typename E>
  std::string sender_of(const E& event) const {
    if constexpr (requires { event.incarnation; }) return name_of_worker(event.incarnation);
    if constexpr (requires { event.replica; }) return "replica " + std::to_string(event.replica);
    return "";
  }

  // protocol.cpp
  bool is_between_epochs() const {
    return phase_ == Phase::gathering || phase_ == Phase::preparing;
  }
  void start_timer(double seconds);
  void emit(Effect effect) { effects_.push_back(std::move(effect)); }

  RunSpec spec_;
  std::int64_t first_step_ = 0;
  std::vector<Effect> effects_;  // of the event that is being handled
  std::uint64_t timer_ = 0;      // the newest; an older one counts for nothing

  Phase phase_ = Phase::gathering;
  Roster roster_;
  EpochGathering gathering_;
  Epoch epoch_;                          // running or being prepared
  Epoch kept_;                           // the last one that all ranks reached; number 0: none
  ReplicaAnswers ready_;                 // while preparing
  double move_s_ = 0;                    // ReportEpoch's
  bool spares_due_ = false;              // once the epoch's first step is committed
  std::set<std::uint64_t> warm_spares_;  // were told to prepare for any rank

  std::int64_t committed_ = 0;
  std::int64_t reached_ = 0;    // the newest step that was ever committed
  StepVotes votes_;             // while running
  EvaluationRound evaluation_;  // while evaluating
  CheckpointProgress checkpoint_;
  std::optional<PendingScale> scale_;
  WorkerFailures failures_;
  RunEnd end_;
};

}  // namespace troupe::actors
