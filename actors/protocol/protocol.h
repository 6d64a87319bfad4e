#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/protocol/checkpoint_progress.h"
#include "actors/protocol/configuration_gathering.h"
#include "actors/protocol/hosts/grow_clock.h"
#include "actors/protocol/hosts/host_planner.h"
#include "actors/protocol/hosts/host_table.h"
#include "actors/protocol/pending_scale.h"
#include "actors/protocol/protocol_effects.h"
#include "actors/protocol/protocol_events.h"
#include "actors/protocol/roster.h"
#include "actors/protocol/run_end.h"
#include "actors/protocol/run_start.h"
#include "actors/protocol/step_ahead.h"
#include "actors/protocol/votes/evaluation_round.h"
#include "actors/protocol/votes/loss.h"
#include "actors/protocol/votes/replica_answers.h"
#include "actors/protocol/votes/step_votes.h"
#include "actors/protocol/worker_failures.h"

// The director's side of the step transaction, of recovery and of re-scaling as a pure state
// machine: events in, effects out, no clock, no I/O, no CAF. The director actor is a shell around
// it; tests drive it event by event. actors/README.md has its states, its values and its events.

namespace troupe::actors {

/// The director's state machine, a copyable value: on() is the transition function.
class DirectorProtocol {
 public:
  enum class Phase { gathering, preparing, running, saving, evaluating, ending, ended };

  DirectorProtocol(RunSpec spec, const RunStart& start);
  std::vector<Effect> on(const Event& event);

  Phase phase() const { return phase_; }
  std::int64_t committed() const { return committed_; }
  /// The newest way back to a step that was committed before, which may be over.
  CatchUp newest_way() const { return {.back_to = back_to_, .reached = reached_}; }
  /// The way that is under way: steps that were committed before are computed again.
  std::optional<CatchUp> catch_up() const;
  /// The step of the newest checkpoint in the run directory; -1: none.
  std::int64_t saved() const { return checkpoint_.saved(); }
  /// The configuration that is running or being prepared, or was last; number 0 before the first.
  const Configuration& configuration() const { return configuration_; }
  const Roster& roster() const { return roster_; }
  const HostTable& hosts() const { return hosts_; }
  /// Whether a worker of an earlier director is expected.
  bool adopts(std::uint64_t worker) const { return takeover_.expects(worker); }
  /// A worker's name for people: "rank 3 (replica 1, stage 1)", or "worker 7" if it has no rank.
  std::string name_of_worker(std::uint64_t incarnation) const;
  /// The step of the checkpoint that is being made; none if none is.
  std::optional<std::int64_t> writing() const { return checkpoint_.writing(); }
  /// The number of batches done in the evaluation under way; none if none is.
  std::optional<std::int64_t> evaluated() const;
  /// The shape that the manifest, or the last order, asks for; losses may have made it smaller.
  const ClusterShape& wanted() const { return wanted_; }
  /// Whether an order, a failure or a step that is not finite will end the run soon.
  bool stopping() const { return end_.is_near(); }

 private:
  // Defined in protocol_steps.cpp: the step transaction.
  void handle(const ReplicaPrepared& event);
  void handle(const SaveOrdered& event);
  void handle(const ReplicaSaved& event);
  void handle(const Published& event);
  void handle(const ReplicaEvaluated& event);
  void commit();
  void after_commit();
  void save();
  void write_checkpoint();
  void answer_saved();
  void answer_save(ErrorKind kind, const std::string& refused);
  void evaluate_or_go_on();
  void order_batches();
  void go_on();
  void order_step();
  bool is_over() const;
  bool is_save_due(std::int64_t step) const;
  bool is_evaluation_due(std::int64_t step) const;

  // Defined in protocol_ahead.cpp: steps that are ordered before the one before is committed.
  void handle(const ReplicaCopied& event);
  void await_votes();
  void order_ahead();

  // Defined in protocol_configurations.cpp: how a configuration begins.
  void handle(const Started& event);
  void handle(const MemberJoined& event);
  void finish_without_room();
  void handle(const Halted& event);
  void handle(const ReplicaReady& event);
  void gather(const std::string& reason, bool reconnect = true);
  void begin_if_complete();
  void go_back_to(const StatePlan& state);
  StatePlan choose_state(const Configuration& next) const;
  void settle();
  void spawn_missing(const TargetShape& target, double delay_s);
  void spawn(int rank, const std::string& host, double delay_s);
  void keep_spares();
  void dismiss(std::uint64_t incarnation);

  // Defined in protocol_adoption.cpp: how the run of an earlier director goes on.
  void handle(const MemberAdopted& event);
  void lose_left(const std::vector<std::uint64_t>& workers);
  void adoption_is_late();
  void adopt_if_complete();
  void take_up(const StatePlan& state);

  // Defined in protocol_failures.cpp: which workers are lost, and how the run goes on without them.
  void handle(const WorkerExited& event);
  void handle(const WorkerFailed& event);
  void handle(const TimerRang& event);
  void lose(const Loss& loss);
  Standing standing_of(std::uint64_t incarnation) const;
  void go_on_without(const Standing& lost, const std::vector<int>& others, const RegroupCause& why);
  void regroup(const RegroupCause& why);
  bool ends_after_failures(const std::string& cause);
  std::string told_with_delay(const std::string& cause) const;
  bool shrink_to_survivors();
  void gathering_is_late(double now_s);
  void symptom_is_the_cause(double now_s);

  // Defined in protocol_hosts.cpp: hosts that join, are lost or are to be left.
  void handle(const HostJoined& event);
  void handle(const HostLost& event);
  void handle(const HostsDraining& event);
  void handle(const GrowTimerRang& event);
  bool has_workers_on(const std::string& host) const;
  void lose_host(const std::string& name, const std::string& cause, double now_s);
  void leave_hosts(const std::vector<std::string>& names, const std::string& cause);
  void change_anew();
  void dismiss_idle_on(const std::string& host);
  void gather_elsewhere();
  void change_by_itself();
  void order_by_itself(PendingScale change);
  void leave(std::vector<std::string> hosts);
  void grow();
  void start_grow_timer(double seconds);
  void grow_later();
  void note_wanted(const PendingScale& done);

  // Defined in protocol_placement.cpp: which hosts get which ranks.
  HostPlanner planner() const { return {spec_, hosts_, kept_, roster_}; }
  bool aim_at_hosts(const ClusterShape& shape, bool replaces);
  void aim_at_kept();
  void place_change(double delay_s);
  std::optional<TargetShape> change_on_hosts(const PendingScale& change) const;
  void tell_use_of_hosts(const std::vector<std::string>& hosts);
  void stop_without_hosts();

  // Defined in protocol_scale.cpp: an order to change the cluster.
  void handle(const ScaleOrdered& event);
  void handle(const Warm& event);
  TargetShape target_of(const ScaleRequest& request, const std::vector<std::string>& left) const;
  void prepare_change();
  bool has_changed() const;
  void warm_up();
  void warm_up_spares();
  void cool_down();
  bool can_scale() const;
  bool is_newcomer(std::uint64_t incarnation) const;
  void lose_newcomer(const std::string& cause, bool has_begun);
  void scale_failed(const std::string& cause);
  void give_up_scale(ErrorKind kind, const std::string& why);
  bool can_undo_scale() const;
  void answer_scale(ErrorKind kind, const std::string& refused);
  bool is_scaling() const { return scale_ && scale_->is_under_way; }

  // Defined in protocol_end.cpp: the end of the run.
  void handle(const DirectorFailed& event);
  void handle(const StopOrdered& event);
  void handle(const StopNowOrdered& event);
  void stop_in_order(const std::string& reason, int exit_code);
  void fail(ErrorKind kind, const std::string& message);
  void give_up(const std::string& why);
  bool has_unsaved_state() const;
  bool saves_again() const;
  std::string told_with_retry(const std::string& error) const;
  void wait_to_save_again();
  void finish(Outcome outcome);
  void finish_in_order();
  Outcome outcome_of_refused_step(const std::string& end) const;
  void tell_if_unsaved(const Published& last);
  void end_if_alone();

  // Defined in protocol_checks.cpp: why an event is impossible; empty if it is possible.
  std::string fault_in(const Halted& event) const;
  std::string fault_in(const Warm& event) const;
  std::string fault_in(const ReplicaEvaluated& event) const;
  std::string fault_in(const WorkerFailed& event) const;
  std::string fault_in(const HostJoined& event) const;
  template <typename Other>
  std::string fault_in(const Other& event) const {
    if constexpr (requires { event.replica; })
      return fault_of_replica(event.configuration, event.replica);
    return "";
  }
  std::string fault_of_configuration(std::uint32_t configuration) const;
  std::string fault_of_replica(std::uint32_t configuration, int replica) const;

  // Defined in protocol.cpp.
  template <typename E>
  std::string sender_of(const E& event) const;
  bool is_between_configurations() const { return phase_ <= Phase::preparing; }
  void start_timer(double seconds);
  void emit(Effect effect) { effects_.push_back(std::move(effect)); }

  RunSpec spec_;
  std::int64_t first_step_ = 0;
  std::vector<Effect> effects_;  // effects of the event that is being handled
  std::uint64_t timer_ = 0;      // the newest timer; older ones count for nothing

  Phase phase_ = Phase::gathering;
  Roster roster_;
  HostTable hosts_;
  ConfigurationGathering gathering_;
  ClusterShape wanted_;          // what the manifest, or the last order, asks for
  Configuration configuration_;  // the configuration that is running or being prepared, or was last
  Configuration kept_;           // the last configuration that all ranks reached; number 0: none
  ReplicaAnswers ready_;         // used while preparing
  double move_s_ = 0;            // for ReportConfiguration::move_s
  bool spares_due_ = false;      // keep_spares() is due with the configuration's first commit
  std::set<std::uint64_t> warm_spares_;  // spares that were asked to prepare for any rank

  std::int64_t committed_ = 0;
  std::int64_t reached_ = 0;    // the newest step that was ever committed
  std::int64_t back_to_ = 0;    // the oldest state on the newest way back to reached_
  std::int64_t evaluated_ = 0;  // the newest step that was evaluated
  StepVotes votes_;             // used while running
  StepAhead ahead_;             // used while running
  EvaluationRound evaluation_;  // used while evaluating
  CheckpointProgress checkpoint_;
  std::optional<PendingSave> save_;
  std::optional<PendingScale> scale_;
  std::uint64_t own_changes_ = 0;  // orders that the run gave itself
  int failed_leaves_ = 0;          // given up, to leave hosts that still have ranks
  GrowClock grow_;
  WorkerFailures failures_;
  RunEnd end_;
  Takeover takeover_;  // of a run that an earlier director has left
};

}  // namespace troupe::actors
