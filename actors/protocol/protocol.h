#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/protocol/protocol_events.h"

// The director's side of the step transaction, of recovery and of re-scaling as a pure state
// machine: events in, effects out, no clock, no I/O, no CAF. The director actor is a shell around
// it; tests drive it event by event. States and messages are drawn in actors/README.md.

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
  std::int64_t saved() const { return saved_; }
  /// The epoch that is running or being prepared; number 0 before the first.
  const Epoch& epoch() const { return epoch_; }
  /// "rank 3 (replica 1, stage 1)", or "worker 7" of one without a rank.
  std::string name_of_worker(std::uint64_t incarnation) const;
  /// It was spawned, and has not joined or ended yet.
  bool expects(std::uint64_t incarnation) const;
  /// Some that were spawned have not joined yet.
  bool expects_workers() const;
  /// The checkpoint under way.
  std::optional<std::int64_t> writing() const { return writing_; }
  /// Batches of the evaluation under way that are done.
  std::optional<std::int64_t> evaluated() const {
    return phase_ == Phase::evaluating ? std::optional(evaluated_) : std::nullopt;
  }
  bool stopping() const { return stop_reason_ || refused_step_ || outcome_; }

 private:
  struct Worker {
    int id = 0;
    Member member;
    bool joined = false;
    bool leaving = false;                     ///< it has been told to end
    bool halts = false;                       ///< it was asked to, for the epoch being gathered
    std::optional<StateInventory> inventory;  ///< its answer
    bool warms_up = false;                    ///< it builds a stage beside the steps
    bool warm = false;                        ///< it has
  };
  struct PendingScale {
    std::uint64_t order = 0;
    ScaleRequest request;
    ClusterShape shape;
    int deaths = 0;  ///< of newcomers that it was waiting for
  };

  std::vector<Effect> handle(const Started&);
  std::vector<Effect> handle(const MemberJoined& event);
  std::vector<Effect> handle(const MemberHalted& event);
  std::vector<Effect> handle(const MemberWarm& event);
  std::vector<Effect> handle(const ReplicaReady& event);
  std::vector<Effect> handle(const ReplicaPrepared& event);
  std::vector<Effect> handle(const ReplicaSaved& event);
  std::vector<Effect> handle(const ReplicaEvaluated& event);
  std::vector<Effect> handle(const Published& event);
  std::vector<Effect> handle(const WorkerExited& event);
  std::vector<Effect> handle(const WorkerFailed& event);
  std::vector<Effect> handle(const DirectorFailed& event);
  std::vector<Effect> handle(const ScaleOrdered& event);
  std::vector<Effect> handle(const StopOrdered& event);
  std::vector<Effect> handle(const StopNowOrdered& event);
  std::vector<Effect> handle(const TimerRang& event);

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

  // protocol_epochs.cpp: who takes part.
  std::vector<Effect> gather(const std::string& reason, bool reconnect = true);
  bool has_joined(std::uint64_t incarnation) const;
  Epoch epoch_of(const std::vector<std::uint64_t>& assignment, const ClusterShape& shape) const;
  std::vector<std::uint64_t> assign_ranks(const ClusterShape& shape) const;
  std::vector<std::pair<int, std::uint64_t>> members_left(int replica) const;
  std::vector<Effect> spawn_missing(const ClusterShape& shape);
  Effect spawn(int rank);
  std::vector<Effect> one_less_is_missing();
  std::vector<Effect> begin_if_complete();
  StatePlan choose_state(const Epoch& next) const;
  std::vector<Effect> settle();
  std::vector<Effect> keep_spares();
  std::vector<Effect> lose(std::uint64_t incarnation, const std::string& cause, double now_s);
  bool is_newcomer(std::uint64_t incarnation) const;
  std::vector<Effect> lose_newcomer(const std::string& cause, bool has_begun);
  std::vector<Effect> regroup(const std::string& cause, double now_s);
  std::set<int> lost_ranks() const;
  void keep_replicas();
  std::vector<Effect> gathering_is_late(double now_s);
  void forget(std::uint64_t incarnation);

  // protocol_scale.cpp: an order to change the cluster.
  std::vector<Effect> warm_up();
  std::vector<Effect> warm_up_spares();
  void cool_down();
  bool can_scale() const;
  std::vector<Effect> answer_scale(ErrorKind kind, const std::string& refused);

  // protocol.cpp: the step transaction.
  bool is_over() const;
  bool is_current(std::uint32_t epoch, std::int64_t step, Phase phase) const;
  /// Notes that a replica has answered; true when all have.
  bool all_answered(int replica);
  Effect start_timer(double seconds);
  std::vector<Effect> commit();
  std::vector<Effect> after_commit();
  std::vector<Effect> save();
  std::vector<Effect> evaluate_or_go_on();
  std::vector<Effect> order_batches();
  std::vector<Effect> go_on();
  std::vector<Effect> finish(Outcome outcome);
  std::vector<Effect> end_if_alone();
  Outcome outcome_of_refused_step(const std::string& end) const;
  std::vector<Effect> fail(ErrorKind kind, const std::string& message);

  RunSpec spec_;
  std::int64_t first_step_ = 0;
  std::uint64_t seed_ = 0;
  std::uint64_t num_spawned_ = 0;  // workers spawned so far
  int num_failed_spawns_ = 0;      // that ended before they joined, since the last one that joined

  std::map<std::uint64_t, Worker> workers_;  // alive, by incarnation
  std::set<int> free_ids_;                   // below next_id_
  int next_id_ = 0;
  Epoch kept_;           // the last one that all ranks reached; number 0: none
  Epoch epoch_;          // running or being prepared
  ClusterShape target_;  // of the epoch being gathered or prepared, and of the running one
  std::vector<int> kept_replica_;               // of each replica of the target
  std::vector<std::uint64_t> rank_assignment_;  // while gathering: by rank; 0: nobody yet
  int missing_ = 0;                             // while gathering: answers, at least so many
  std::uint32_t number_ = 0;                    // of the newest epoch

  Phase phase_ = Phase::gathering;
  std::int64_t committed_ = 0;
  std::int64_t reached_ = 0;          // the newest step that was ever committed
  std::int64_t saved_ = -1;           // newest published checkpoint in the run directory
  std::int64_t not_saved_ = -1;       // the newest step that could not be saved
  std::set<int> answered_;            // replicas, in the phase's round
  std::vector<double> replica_loss_;  // of the round
  std::int64_t evaluated_ = 0;        // batches that are done
  std::int64_t batches_ordered_ = 0;
  std::map<std::pair<std::int64_t, int>, double> batch_losses_;  // by batch and replica
  double move_s_ = 0;                                            // ReportEpoch's
  double squared_norm_ = 0;
  std::string not_finite_;
  std::optional<std::int64_t> writing_;  // the checkpoint under way
  bool publishing_ = false;              // all parts of it are written
  std::set<int> written_by_;             // replicas
  std::string save_error_;               ///< of the checkpoint under way, or of not_saved_

  std::optional<PendingScale> pending_;  // ordered, not yet committed
  std::vector<std::uint64_t> warming_;   // by rank of its shape; empty: nobody yet
  bool spares_due_ = false;              // once the epoch's first step is committed
  bool rescaling_ = false;               // the epoch being gathered or prepared is for it
  std::deque<double> failure_times_;     // of the workers lost in the last hour
  std::optional<WorkerFailed> failure_;  // the last one by a worker's own word
  std::optional<WorkerFailed> symptom_;  // waiting for a first cause that may come
  std::optional<std::string> stop_reason_;
  /// A loss or norm was not finite: which, where. The run ends once the step before is saved.
  std::optional<std::string> refused_step_;
  int stop_code_ = 0;
  std::optional<Outcome> outcome_;  // decided; the workers are ending
  std::uint64_t timer_ = 0;
};

}  // namespace troupe::actors
