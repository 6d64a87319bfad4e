#pragma once

#include <caf/actor.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/agent/processes.h"
#include "actors/director/checkpoint_actor.h"
#include "actors/director/cluster.h"
#include "actors/director/replica_actor.h"
#include "actors/director/status_board.h"
#include "actors/messages/control_plane.h"
#include "actors/monitors/hub.h"
#include "actors/protocol/hosts/time_limits.h"
#include "actors/protocol/hosts/way_watch.h"
#include "actors/protocol/liveness.h"
#include "actors/protocol/protocol.h"
#include "actors/protocol/recovery_clock.h"
#include "actors/tuning/tuner.h"

namespace troupe::actors {

/// What the director works with. The references outlive the director.
struct DirectorContext {
  RunSpec spec;
  std::string manifest;
  std::string token;
  std::int64_t first_step = 0;
  std::int64_t sample_origin = 0;           ///< stages::FeedSpec::origin
  std::int64_t memory_bytes = 0;            ///< memory that all ranks together may take
  std::int64_t saved_step = -1;             ///< step of a checkpoint in the run directory; -1: none
  std::vector<LeftWorker> left;             ///< RunStart::left
  ClusterOptions::Predecessor predecessor;  ///< if workers are left
  stages::Claim claim;                      ///< to the run directory
  double ends_s = 0;                        ///< ClusterOptions::ends_s
  caf::actor checkpoints;                   ///< a CheckpointActor
  RunObserver& observer;
  Hub& hub;
  Processes& processes;
  StatusBoard& board;
  std::function<void(const Outcome&)> on_end;
  Hosts* hosts = nullptr;  ///< of a run on several
};

/// The wait before a worker is started is over. Sent only within the launcher.
struct SpawnDue {
  std::uint64_t incarnation = 0;
};

/// What hosts that tried the ways to each other have found. Sent only within the launcher.
struct WaysTried {
  SurveyResult found;
};

/// An order to change the cluster; `answer` is called with the result. Sent only within the
/// launcher.
struct ScaleOrder {
  ScaleRequest request;
  std::function<void(const ScaleAnswer&)> answer;
};

/// An order to make a checkpoint; `answer` is called with the result. Sent only within the
/// launcher.
struct SaveOrder {
  std::function<void(const SaveAnswer&)> answer;
};

/// Shell around DirectorProtocol: turns messages into events, and effects into messages and
/// processes. Its handlers call the observer, which must not block, and access no file.
class Director : public ControlActor {
 public:
  Director(caf::actor_config& config, DirectorContext context);
  caf::behavior make_behavior() override;
  /// Drops the handles of other actors: a circle of handles would keep all of them for ever.
  void on_exit() override;

 private:
  // Handlers of messages.
  caf::result<Welcome> welcome(const Hello& hello);
  void join(const Join& join);
  void rejoin(const Rejoin& message);
  void on_heartbeat(const Heartbeat& beat);
  void on_ranks_watched(const RanksWatched& by);
  void failed(const Failed& failure);
  void on_vote(const ReplicaVote& vote);
  void on_advice(const Tuner::Advice& advice);
  void finished(const CheckpointFinished& checkpoint);
  /// The incarnation of the worker that sent the current message; none if no worker did.
  std::optional<std::uint64_t> sender();
  std::string sender_name();
  Liveness::HearsHost hears_host() const;
  Liveness::CpuSeconds cpu_seconds() const;
  void watch_over_workers();
  void leave_in_time();
  void report_own_activity();

  // Defined in director_orders.cpp: orders from outside, and their answers.
  void ordered(const ScaleOrder& order);
  void ordered(const SaveOrder& order);
  void perform(const AnswerScale& effect);
  void perform(const AnswerSave& effect);

  // Passes events to the protocol and performs its effects.
  void handle(Event event);
  void perform(const SpawnWorker& effect);
  void perform(const KillWorker& effect);
  void perform(const ReportWorkerLost& effect);
  void perform(const ReportHost& effect);
  void perform(const ReportGivenUp& effect);
  void perform(const ReportRefused& effect);
  void perform(const OrderHalt& effect);
  void perform(const OrderWarmUp& effect);
  void perform(const WarmUpSpare& effect);
  void perform(const ReportWentBack& effect);
  void perform(const ReportTakeOver& effect);
  void perform(const StartConfiguration& effect);
  void perform(const ReportConfiguration& effect);
  void perform(const OrderLeave& effect);
  void perform(const OrderStep& effect);
  void perform(const OrderCommit& effect);
  void perform(const OrderSave& effect);
  void perform(const PublishCheckpoint& effect);
  void perform(const AbandonCheckpoint& effect);
  void perform(const Evaluate& effect);
  void perform(const ReportEvaluation& effect);
  void perform(const ReportUnsaved& effect);
  void perform(const ReportRepair& effect);
  void perform(const StartTimer& effect);
  void perform(const StartGrowTimer& effect);
  void perform(const Finish& effect);
  void perform(const KillWorkers& effect);
  void perform(const End& effect);

  // Defined in director_ways.cpp.
  void watch_over_ways();
  void on_tried(const WaysTried& tried);

  // Defined in director_spawns.cpp.
  void start(const SpawnWorker& worker);
  void start_due(std::uint64_t incarnation);
  void forget_delayed();
  void open_join_port();
  void close_join_port();

  void begin(const StartConfiguration& order);
  std::string origin_of(std::int64_t step, bool from_memory) const;
  template <typename Order>
  void order_all(const Order& order) {
    for (const auto& replica : replicas_) send(replica, order);
  }
  StepReport report(const OrderCommit& commit);
  StepReport basic_report(const CommittedStep& commit) const;
  void publish_status();
  void announce(const std::string& text);
  /// Publishes an event of the current configuration to the monitors. `step` -1: the last committed
  /// one.
  void tell(EventBody body, int rank = -1, std::int64_t step = -1);
  ChangeReport end_change(RecoveryClock& clock, std::int64_t step);
  void report_ordered(std::int64_t step);
  void report_recovered(std::int64_t step);
  void list_ranks(const Configuration& configuration);
  bool own_groups();
  void tell_of_groups(GroupsState state);
  void on_failure(const std::string& what) override;
  void on_error_of_peer(const std::string& what) override;

  DirectorContext context_;
  DirectorProtocol protocol_;
  const std::shared_ptr<const std::vector<stages::ParameterInfo>> parameters_;
  int port_ = 0;                                  ///< port at which workers join; 0: closed
  std::map<std::uint64_t, StageRef> workers_;     // workers that have joined, by incarnation
  std::map<std::uint64_t, SpawnWorker> delayed_;  // workers that are to be started later
  std::vector<caf::actor> replicas_;
  caf::actor scheduler_;
  std::stop_source abandon_;         ///< stops the checkpoint that is being completed
  bool scheduler_measures_ = false;  ///< the scheduler wants the times of actions
  // What each replica measured in the current step.
  std::vector<std::shared_ptr<const StepReport::Measured>> measured_;
  GroupsState groups_ = GroupsState::none;  ///< of the configuration's ranks, as far as is told
  Liveness liveness_;
  WayWatch ways_;
  TimeLimits limits_;
  RecoveryClock ordered_;      ///< times the order that is carried out
  RecoveryClock recovery_;     ///< times any other change, whatever is ordered on the way
  std::int64_t reported_ = 0;  ///< the newest reported step; steps up to it are not reported again
  /// Steps that an earlier director has committed, as its workers tell, until it is known which of
  /// them it has written down.
  std::map<std::int64_t, CommittedStep> told_commits_;
  RecoveryClock::Time last_sign_;  ///< when the worker of the current event last gave a sign
  ChangeReport change_;  ///< the newest change that was carried out since the newest order
  std::string shape_;    ///< shape of the newest step, for people
  std::map<std::uint64_t, ScaleOrder> scale_orders_;
  std::map<std::uint64_t, SaveOrder> save_orders_;
  std::uint64_t next_order_ = 1;
  std::uint64_t refused_ = 0;                   ///< number of impossible messages
  std::vector<double> handler_s_;               ///< for DirectorActivity::handler_s
  double step_begin_s_ = 0, save_begin_s_ = 0;  ///< on the monotonic clock
  std::int64_t tapped_ = 0;                     ///< the newest step that was ordered with taps
  std::string unfinished_;  ///< directory of the newest checkpoint that was ordered
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::SpawnDue)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::ScaleOrder)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::WaysTried)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::SaveOrder)
