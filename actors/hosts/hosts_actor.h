#pragma once

#include <caf/actor.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/agent/surveyor.h"
#include "actors/files/files_offer.h"
#include "actors/hosts/director_messages.h"
#include "actors/hosts/host_registry.h"
#include "actors/hosts/part_gathering.h"
#include "actors/hosts/survey_desk.h"
#include "actors/messages/control_plane.h"
#include "actors/messages/interfaces.h"
#include "actors/messages/own_threads.h"
#include "actors/protocol/liveness.h"
#include "actors/protocol/protocol_events.h"

namespace troupe::actors {

/// What the HostsActor works with. What it refers to outlives it.
struct HostsContext {
  std::string token;
  /// HostHello::traits of the launcher's own host.
  std::map<std::string, std::string> traits;
  std::map<std::string, int> slots;  ///< of hosts that the run names
  int other_slots = 1;               ///< of others that do not say how many they have
  double silent_s = 3;               ///< a host that says nothing for so long is lost; 0: never
  bool trusted_network = false;      ///< whether hosts may have addresses that are not private
  double wait_s = 0;                 ///< RunBegins::wait_s
  /// Called when a host is lost.
  std::function<void(const std::string& name)> on_lost;
  HostRegistry& registry;
  OwnThreads& own_threads;
  std::string own;      ///< name of the launcher's own host in surveys
  std::string address;  ///< of that host, at which the others reach it
  std::string ports;    ///< cluster.ports
};

/// A host is to have no worker any more once those that it has have ended.
struct LetGo {
  std::string host;
};
/// An order to other hosts. Sent only within the launcher, as those below.
struct OrderToHosts {
  std::variant<StartWorker, StopWorkers, FilesWanted, LetGo> order;
};
/// The director's actor is there; events go to it from now on. It knows of these hosts already.
struct DirectorStarts {
  caf::actor director;
  std::vector<std::string> known;
  std::uint64_t term = 0;
  std::string token;  ///< of the director
  int port = 0;       ///< at which hosts join
};
/// The agent of another launcher of the run, at its door: it is to obey this one.
struct CallAgent {
  caf::actor agent;
  std::string host;
  std::uint64_t term = 0;
  bool keeps_workers = true;
};
/// A host has joined a live run, which it is to be part of.
struct HostAdmitted {
  Host host;
  std::uint64_t incarnation = 0;  ///< of its agent
  double ends_s = 0;              ///< as HostJoined::ends_s
  bool waits = false;             ///< it was told of that it has to wait
};
/// The run is to go on without a host.
struct HostGivenUp {
  std::string host;
  std::string cause;
};
/// Files for other hosts, by which hosts that join later are judged.
struct FilesOffered {
  FilesOffer offer;
};
/// The order to bring a host what it does not see. HostRegistry::brought() has its answer later.
struct BringFiles {
  std::string host;
  FilesAway away;
};
/// The question which of these hosts have parts of checkpoints, answered by PartHolders.
struct PartHoldersWanted {
  std::vector<std::string> hosts;
};
struct PartHolders {
  std::vector<PartHolder> holders;
};
/// The parts that hosts have are not needed any more.
struct DropParts {};
/// The run is over: all hosts are dismissed.
struct HostsDismissed {
  std::string reason;
};

/// The launcher's side of the agents: lets hosts join, passes orders of the director to them and
/// their reports to the director, and tells it once when a host is lost.
class HostsActor : public ControlActor {
 public:
  HostsActor(caf::actor_config& config, HostsContext context);
  caf::behavior make_behavior() override;
  void on_exit() override;

 private:
  struct Agent {
    AgentRef actor;
    std::string host;
    std::uint64_t incarnation = 0;
    bool leaves = false;  ///< it is dismissed when its last worker has ended
    /// Who takes part once the host has all files that it needs; none: that was seen to.
    std::optional<HostAdmitted> joins;
    std::uint64_t beats = 0;
  };
  HostWelcome welcome(const HostHello& hello);
  void take(const FilesOffer& offer);
  void equip(const HostAdmitted& newcomer);
  void on_seen(const FilesSeen& seen);
  void bring(const std::string& host, FilesAway away);
  void on_brought(const FilesBrought& brought);
  void refuse(const Agent& agent, std::string why);
  PartHolders holders_among(const std::vector<std::string>& hosts);
  /// Lets the host of an agent join, unless there is a reason against it. Returns the reason.
  std::string take_in(const HostHello& hello, const caf::strong_actor_ptr& agent,
                      const std::vector<std::uint64_t>& inherited);
  void call(const CallAgent& order);
  void called(const CallAgent& order, const TakenOver& answer);
  void tell_begin(const AgentRef& agent);
  std::string refusal_of(const HostHello& hello) const;
  std::string twice(const HostHello& hello) const;
  void on_beat(const AgentBeat& beat);
  void on_ended(const WorkerEnded& end);
  void on_leaves(const HostLeaves& leave);
  void carry_out(const StartWorker& order);
  void carry_out(const StopWorkers& order);
  void carry_out(const FilesWanted& order);
  void carry_out(const LetGo& order);
  // Defined in hosts_admission.cpp.
  void admit(const HostAdmitted& newcomer);
  void tried(const HostAdmitted& newcomer, const SurveyResult& found);
  bool survey(const std::string& host, const Survey::Order& order);
  template <typename Answer>
  void surveyed(const Answer& answer) {
    if (const Agent* agent = sender()) surveys_.take(agent->host, answer);
  }
  void dismiss(const std::string& reason);
  void look_for_silent();
  // A host's name is taken by value where its entry, which holds it, may be removed.
  void lose(std::string host, const std::string& cause);
  void take_out(const std::string& host, const std::string& cause);
  void serve(const DirectorStarts& start);
  void dismiss_if_left(std::string host);
  void forget(std::string host);
  Agent* sender();
  Agent* agent_of(const std::string& host);
  void tell(Event event);
  void on_failure(const std::string& what) override;
  void on_error_of_peer(const std::string&) override {}
  void on_down(const caf::actor_addr& who) override;

  HostsContext context_;
  Liveness liveness_;  ///< of agents, by their incarnations
  caf::actor director_;
  RunBegins begin_;  ///< once the director is there
  std::map<std::string, std::string> told_refusals_;  ///< of hosts that came while it is there
  std::map<caf::actor_addr, Agent> agents_;
  Surveyor surveyor_{*this, context_.address,
                     context_.own_threads};  ///< of the launcher's own host
  SurveyDesk surveys_{[this](const auto& host, const auto& order) { return survey(host, order); }};
  std::optional<FilesOffer> offer_;
  caf::actor run_files_;                     ///< gives the files of the offer
  std::map<std::string, caf::actor> parts_;  ///< of hosts with a run directory of their own
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::CallAgent)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::OrderToHosts)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::DirectorStarts)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::HostAdmitted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::HostGivenUp)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::FilesOffered)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::BringFiles)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::PartHoldersWanted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::PartHolders)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::DropParts)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::HostsDismissed)
