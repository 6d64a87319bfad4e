#pragma once

#include <caf/actor.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "actors/cluster.h"
#include "actors/control_plane.h"
#include "actors/processes.h"
#include "actors/protocol.h"
#include "actors/replica_actor.h"
#include "actors/status_board.h"

namespace troupe::actors {

/// The port at which workers join is open: the run begins. Local to the launcher.
struct DoorOpen {
  int port = 0;
};

/// What the director works with. References outlive it.
struct DirectorContext {
  RunSpec spec;
  std::string manifest;
  std::string token;
  std::int64_t first_step = 0;
  std::int64_t sample_origin = 0;  ///< stages::FeedSpec::origin
  std::int64_t saved_step = -1;    ///< a checkpoint of it is already in the run directory; -1: none
  RunObserver& observer;
  Processes& processes;
  StatusBoard& board;
  std::function<void(const Outcome&)> on_end;
};

/// Shell around DirectorProtocol: turns messages into events and effects into messages, files and
/// processes. Its handlers write checkpoints' last files and call the observer.
class Director : public ControlActor {
 public:
  Director(caf::actor_config& config, DirectorContext context);
  caf::behavior make_behavior() override;
  /// Lets go of the other actors: handles in a circle would keep all of them for ever.
  void on_exit() override;

 private:
  // Messages.
  caf::result<Welcome> welcome(const Hello& hello);
  void join(const Join& join);
  void heard(const Heartbeat& beat);
  void count_silence();

  // Events in, effects out.
  void handle(const Event& event);
  void perform(const SpawnWorker& effect);
  void perform(const StartEpoch& effect);
  void perform(const OrderStep& effect);
  void perform(const OrderCommit& effect);
  void perform(const OrderSave& effect);
  void perform(const PublishCheckpoint& effect);
  void perform(const OrderEvaluate& effect);
  void perform(const ReportEvaluation& effect);
  void perform(const StartTimer& effect);
  void perform(const OrderFinish& effect);
  void perform(const KillWorkers& effect);
  void perform(const End& effect);

  template <typename Order>
  void order_all(const Order& order);
  StepReport report(const OrderCommit& commit);
  std::string checkpoint_path(std::int64_t step) const;
  void publish_status();
  void on_failure(const std::string& what) override;
  void on_down(const caf::actor_addr&) override {}

  DirectorContext context_;
  DirectorProtocol protocol_;
  const std::vector<stages::ParameterInfo> parameters_;
  int port_ = 0;
  std::map<int, caf::actor> stages_;  // by rank, as they join
  std::vector<caf::actor> replicas_;
  caf::actor scheduler_;
  std::vector<OfReplica<Ready>> ready_;        // by replica
  std::vector<OfReplica<Prepared>> prepared_;  // by replica, of the step in progress
  std::vector<int> silent_ticks_;              // by rank, since the last heartbeat
  std::chrono::steady_clock::time_point step_begin_;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::DoorOpen)
