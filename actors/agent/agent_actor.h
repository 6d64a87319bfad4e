#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "actors/agent/agent_files.h"
#include "actors/agent/clock_meter.h"
#include "actors/agent/host_agent.h"
#include "actors/agent/processes.h"
#include "actors/agent/surveyor.h"
#include "actors/messages/control_plane.h"
#include "actors/messages/interfaces.h"

namespace troupe::actors {

/// What the thread of HostAgent::leave() sends to the agent's actor.
struct LeaveOrdered {
  std::string cause;
};

/// The actor of an agent: orders of the director's process become those of `processes`, and ends of
/// workers messages. It is the door through which the host's workers join: it passes their Hello
/// on, and is gone when they cannot go on.
class AgentActor : public ControlActor {
 public:
  /// `hosts` is the launcher's HostsActor; `on_end` is called once, when the host is dismissed or
  /// the launcher is lost.
  AgentActor(caf::actor_config& config, AgentSpec spec, const caf::actor& hosts,
             LocalProcesses& processes, OwnThreads& own_threads,
             std::function<void(const Outcome&)> on_end);
  caf::behavior make_behavior() override;
  void on_exit() override;

 private:
  template <typename Order, typename Handler>
  auto of_launcher(Handler handler);
  void join();
  void welcomed(const HostWelcome& welcome);
  void start(const StartWorker& order);
  void stop(const StopWorkers& order);
  void ended(const WorkerExited& exit);
  void tell_end(const WorkerExited& exit);
  void beat();
  void answered(const DirectorBeat& answer);
  void end(const Outcome& outcome);
  void on_failure(const std::string& what) override;
  void on_error_of_peer(const std::string&) override {}
  void on_down(const caf::actor_addr&) override;

  const AgentSpec spec_;
  HostsRef hosts_;
  AgentFiles files_;
  LocalProcesses& processes_;
  std::function<void(const Outcome&)> on_end_;
  int door_ = 0;  ///< port at which the host's workers find this actor
  std::set<std::uint64_t> workers_;
  Surveyor surveyor_;
  double answered_s_ = 0;  ///< when the launcher answered last, on the monotonic clock
  ClockMeter clock_;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::LeaveOrdered)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::WorkerExited)
