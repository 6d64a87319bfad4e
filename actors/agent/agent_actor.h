#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "actors/agent/agent_files.h"
#include "actors/agent/allegiance.h"
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

/// The port at which other launchers find the agent is open; 0: there is none.
struct DoorOpened {
  int port = 0;
};

/// What a thread of the agent has found of a launcher whose connection has ended. Sent only within
/// the agent.
struct LauncherLookedFor {
  std::uint64_t term = 0;
  bool is_there = false;
};

/// The actor of an agent: orders of the director's process become those of `processes`, and ends of
/// workers messages. It is the door through which the host's workers join: it passes their Hello
/// on, and is gone when they cannot go on. If the launcher is lost, it keeps them for another one,
/// which takes it over (messages/takeover_messages.h). It joins once its own door is open.
class AgentActor : public ControlActor {
 public:
  /// Whether a launcher lets hosts join at an address. Called by threads of the agent.
  using Answers = std::function<bool(const std::string& address, int port)>;
  /// `hosts` is the launcher's HostsActor; `on_end` is called once, when the host is dismissed, or
  /// the launcher is lost and no other has come in time.
  AgentActor(caf::actor_config& config, AgentSpec spec, const caf::actor& hosts,
             LocalProcesses& processes, OwnThreads& own_threads, Answers answers,
             std::function<void(const Outcome&)> on_end);
  caf::behavior make_behavior() override;
  void on_exit() override;

 private:
  template <typename Order, typename Handler>
  auto of_launcher(Handler handler);
  void open_door_of_workers();
  void join(const DoorOpened& door);
  void welcomed(const HostWelcome& welcome);
  void start(const StartWorker& order);
  void stop(const StopWorkers& order);
  void ended(const WorkerExited& exit);
  void tell_end(const WorkerExited& exit);
  void leave(const LeaveOrdered& order);
  void beat();
  void answered(const DirectorBeat& answer);
  HostHello hello() const;
  bool ends_if_over();
  AgentState state(const AskAgent& question) const;
  TakenOver turn_to(const TakeOver& order);
  void begin(const RunBegins& order);
  void note(const Resident& resident);
  caf::result<FilesHere> need(const FilesNeeded& needed);
  void look_for_launcher();
  void looked(const LauncherLookedFor& result);
  void end(const Outcome& outcome);
  void on_failure(const std::string& what) override;
  void on_error_of_peer(const std::string&) override {}
  void on_down(const caf::actor_addr&) override;

  AgentSpec spec_;
  HostsRef hosts_;
  AgentFiles files_;
  LocalProcesses& processes_;
  OwnThreads& own_threads_;
  const Answers answers_;
  std::function<void(const Outcome&)> on_end_;
  int door_ = 0;         ///< port at which the host's workers find this actor
  bool joined_ = false;  ///< a launcher has let it join
  std::map<std::uint64_t, std::string> workers_;  ///< their tokens
  Surveyor surveyor_;
  Allegiance allegiance_;
  RunBegins begin_;     ///< of the launcher that is obeyed
  bool looks_ = false;  ///< a thread looks whether it is still there
  ClockMeter clock_;    ///< of the launcher that is obeyed
  int outer_door_ = 0;  ///< port at which other launchers find this actor; 0: there is none
  /// The stages of the workers that are ready for orders.
  std::map<std::uint64_t, StageRef> residents_;
  /// Workers of an earlier launcher, until they are told of this one's director. Those that it
  /// starts itself know it.
  std::set<std::uint64_t> inherited_;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::DoorOpened)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::LauncherLookedFor)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::LeaveOrdered)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::WorkerExited)
