#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "actors/hosts/hosts.h"
#include "actors/security/credentials.h"
#include "launch/host/machine.h"
#include "launch/hosts/agent_starter.h"
#include "launch/hosts/hosts_plan.h"
#include "launch/hosts/hosts_record.h"
#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// The hosts of a run, from before it begins until it has ended: the port at which they join, and
/// what starts their agents.
class HostGathering {
 public:
  /// Opens the port, and starts agents if the plan says so. Throws Error{unavailable} if this host
  /// has no way to the others.
  HostGathering(HostsPlan plan, const Manifest& manifest, const Machine& machine);
  /// Lets the agents end, unless they are another launcher's, and waits for what started them.
  ~HostGathering();
  /// The run begins: its hosts end with it. Those that were taken over would else wait for another
  /// launcher.
  void take_charge() { has_charge_ = true; }
  /// The run has another launcher: no agent is told to end.
  void abandon() { has_charge_ = false; }

  /// What other hosts run to join, for people; empty if agents are started for them.
  std::string join_line() const;
  /// Blocks until all hosts have joined, and tells now and then for which it waits. Throws
  /// Error{unavailable} that names those which have not joined within cluster.wait, or cannot, and
  /// why.
  void wait(const std::function<void(const std::string& text)>& tell);
  /// The hosts that have joined, and this one if it takes part, in the order in which they are
  /// named, or of their names. Those of which nobody said how many ranks they take share the ranks
  /// alike.
  std::vector<actors::Host> hosts() const;
  /// Whether workers of an earlier launcher wait for this one.
  bool inherits() const;
  /// What another launcher of the run must know.
  HostsRecord record() const;
  /// Leaves an invitation in a file, which only this user can read, until the object ends.
  void invite(const std::filesystem::path& file);
  const std::shared_ptr<actors::Hosts>& door() const { return door_; }
  /// Name of this host in the run; empty: it takes no rank.
  const std::string& own() const { return own_; }
  /// What is equal on all hosts (HostHello::traits).
  const std::map<std::string, std::string>& traits() const { return traits_; }
  /// The address at which other hosts reach this one, and who signs what they show.
  const std::string& address() const { return address_; }
  const actors::Authority& authority() const { return authority_; }

 private:
  void open_door(const Manifest& manifest);
  void take_over();
  std::vector<AgentStarter::Command> agent_commands(const std::vector<std::string>& hosts,
                                                    const std::set<std::string>& there) const;
  void start_agents();
  std::string invitation_to(const std::string& host) const;
  /// A host that has not joined, and why, if that is known.
  struct Missing {
    std::string host;
    std::string why;
  };
  /// If no host has a name, one for each that is missing.
  std::vector<Missing> missing() const;
  std::string text_of(const std::vector<Missing>& hosts) const;
  std::string refused() const;
  std::set<std::string> hosts_there() const;
  bool on_end(const std::string& host, const std::string& cause);
  void leave_for_hosts(const std::filesystem::path& file, const std::string& line);

  HostsPlan plan_;
  const actors::Authority authority_;  ///< of the run
  const Settings::Engine engine_;
  const std::map<std::string, std::string> traits_;
  const std::string interface_, ports_;  ///< cluster.interface, cluster.ports
  const Machine machine_;
  const int alike_;  ///< ranks of a host if all have as many
  std::string own_;  ///< name of this host in the run; empty: it takes no rank
  std::string address_;
  std::shared_ptr<actors::Hosts> door_;
  std::vector<std::filesystem::path> invitations_;
  bool has_charge_;

  /// What starts agents, from before hosts can be lost until after the last of them may be.
  struct Starting {
    std::mutex mutex;
    std::unique_ptr<AgentStarter> starter;  ///< null: none is started now
    void again(const std::string& host);
  };
  const std::shared_ptr<Starting> starting_ = std::make_shared<Starting>();
};

}  // namespace troupe::launch
