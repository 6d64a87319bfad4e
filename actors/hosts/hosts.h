#pragma once

#include <caf/actor_system.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/agent/processes.h"
#include "actors/files/files_offer.h"
#include "actors/hosts/host_registry.h"
#include "actors/hosts/survey_desk.h"
#include "actors/messages/join_messages.h"
#include "actors/security/credentials.h"
#include "actors/topology/reports/reports.h"

namespace troupe::actors {

/// How a launcher lets hosts join.
struct HostsSpec {
  std::string address;                        ///< of this host, at which agents reach it
  int port = 0;                               ///< 0: any free one, of `ports` if there are
  Credentials credentials;                    ///< of a director
  std::map<std::string, std::string> traits;  ///< HostHello::traits of this host
  std::map<std::string, int> slots;           ///< HostsContext::slots
  int other_slots = 1;                        ///< HostsContext::other_slots
  double silent_s = 3;
  bool trusted_network = false;  ///< HostsContext::trusted_network
  double wait_s = 0;             ///< HostsContext::wait_s
  /// Called by a thread of the system when a host is lost.
  std::function<void(const std::string& name)> on_lost;
  std::string own;     ///< name of this host in the run; empty: it takes no worker
  std::string device;  ///< WorkerBootstrap::device of its workers
  double ends_s = 0;   ///< when this host is taken away, on the monotonic clock; 0: not known
  std::string ports;   ///< cluster.ports
};

/// Where the agent of a host is found by launchers that take over the run.
struct AgentRecord {
  std::string host;
  std::string address;
  int port = 0;
};

/// Who serves a run: what its director is known by.
struct Service {
  std::uint64_t term = 0;
  std::string token;
};

/// In what a host differs from a launcher whose own host has these traits, so that they cannot work
/// together; empty if they can.
std::string differs_in(const HostHello& hello,
                       const std::map<std::string, std::string>& own_traits);

/// The launcher's door for other hosts, open from before the run until after it, with the actor
/// system that the run's director shares. Functions may be called from any thread.
class Hosts {
 public:
  /// Throws Error{unavailable} if the address or the port cannot be used.
  static std::shared_ptr<Hosts> open(const HostsSpec& spec);
  virtual ~Hosts() = default;

  virtual int port() const = 0;
  virtual HostRegistry& registry() = 0;
  virtual caf::actor_system& system() = 0;
  /// Events of workers and hosts go to the director's actor from now on, first that these hosts and
  /// those which have come since are there.
  virtual void serve(const caf::actor& director, const std::vector<Host>& hosts,
                     const Service& service) = 0;
  /// Has agents that obey another launcher of the run join this one, whose term is higher, with
  /// their workers or without. Returns once each has joined or cannot, which the registry tells, or
  /// after some seconds.
  virtual void take_over(const std::vector<AgentRecord>& agents, std::uint64_t term,
                         bool keeps_workers) = 0;
  /// Asks all other hosts for files; HostRegistry::seen() has their answers later.
  virtual void ask_for(const FilesWanted& files) = 0;
  /// Hosts may have these files. Those that join from now on are asked what they see of them.
  virtual void offer(const FilesOffer& offer) = 0;
  /// Brings a host what it does not see of them; HostRegistry::brought() tells what became of that.
  virtual void bring(const std::string& host, const FilesAway& away) = 0;
  /// Fetches the parts of a checkpoint that those of these hosts have which do not see the run's
  /// directory (gather_parts()). May take its time.
  virtual void gather(const std::filesystem::path& unfinished,
                      const std::vector<std::string>& hosts,
                      const std::function<std::string()>& why_stop) = 0;
  /// Such hosts remove what they have of checkpoints. No rank writes one now.
  virtual void drop_parts() = 0;
  /// What the hosts of a plan find out about themselves and the ways between them. `done` is called
  /// once, by a thread of the system; it is not if the object's actor ends before.
  virtual void survey(SurveyWanted wanted) = 0;
  /// Takes a host out of the run, as if it were lost. If its agent lives, it ends the workers
  /// there, and may join anew.
  virtual void give_up(const std::string& host, const std::string& cause) = 0;
  /// Name of this host in the run; empty: it takes no worker.
  virtual const std::string& own() const = 0;
  /// Workers of all hosts: those of this one are `own`, which outlives the result.
  virtual std::unique_ptr<Processes> workers(Processes& own) = 0;
  /// Fills in what is known of these hosts beside their states.
  virtual void describe(std::vector<HostStatus>& hosts) const = 0;
  /// How many connections were refused because they had no certificate of the run.
  virtual std::uint64_t refused() const = 0;
  /// Lets all agents end. Returns at once.
  virtual void dismiss(const std::string& reason) = 0;
};

}  // namespace troupe::actors
