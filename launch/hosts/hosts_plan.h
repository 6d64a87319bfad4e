#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/hosts/hosts.h"
#include "launch/hosts/job.h"
#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// What the command line says of hosts.
struct HostOptions {
  std::string hostfile;
  int wait_for_hosts = 0;  ///< hosts that come by themselves, with this one; 0: not said
  std::string rendezvous;  ///< "host:port" at which they come; empty: any port of this host
  std::string token_file;  ///< with the secret that they know; empty: a new one
};

struct HostAndPort {
  std::string host;
  int port = 0;
};

/// How the hosts of a run come together.
struct HostsPlan {
  enum class Start {
    none,        ///< there is this one alone
    ssh,         ///< a command for each host starts its agent
    srun,        ///< one command starts the agents of all
    themselves,  ///< agents are started elsewhere, and come
  };
  Start start = Start::none;
  std::vector<actors::Host> named;  ///< empty: any hosts
  int count = 0;                    ///< of hosts, with this one
  std::string own;    ///< this host's name in the run, if the job tells; empty: find_own_host()
  int own_slots = 0;  ///< of this host, if the job tells; 0: as many as others
  std::string
      address;  ///< of this host for the others, a name or an address; empty: that of the route
  int port = 0;
  std::string token;  ///< empty: a new one
  /// File with the secret, for hosts that people have come; empty: those of a job find `shared` or
  /// know the secret.
  std::filesystem::path token_file = {};
  std::filesystem::path shared;  ///< file in which an invitation is left for processes of the job
  /// Agents of an earlier launcher that are to obey this one.
  struct Takeover {
    std::vector<actors::AgentRecord> agents;
    std::uint64_t term = 0;     ///< of this launcher
    bool keeps_workers = true;  ///< else they end them
    bool has_agent(const std::string& host) const;
  };
  std::optional<Takeover> takeover = {};
};

/// Has the manifest say what the command line says of hosts, so that the saved one of the run does:
/// a resume finds the hosts of a hostfile again, and knows if others are to come by themselves.
void keep_hosts(const HostOptions& options, Manifest& manifest);

/// The hosts that the manifest, in which keep_hosts() has been, else the job names. Throws Error
/// with what is wrong.
HostsPlan plan_hosts(const HostOptions& options, const Manifest& manifest, const Job& job);

/// Where the processes of a job that know a secret meet: as the command line says, else the job.
HostAndPort rendezvous_of(const HostOptions& options, const Job& job);

/// The file by which processes of a job find the one that launches the run in this directory.
std::filesystem::path invitation_file(const std::filesystem::path& run, const Job& job);

/// The file in which a launch leaves the secret of the run in this directory, if it is given none.
std::filesystem::path token_file(const std::filesystem::path& run);

/// How many ranks this host takes: as many as the job has processes on it, if it has one for each
/// rank; else 0: as many as the others.
int own_slots(const Manifest& manifest, const Job& job);

/// The secret in a file, which must not be readable by others. Throws Error{data}.
std::string read_token(const std::string& file);

/// The name of this host in a list: as the machine calls itself, or an address that it has; empty:
/// it is not in it.
std::string find_own_host(const std::vector<actors::Host>& hosts);

/// "host:port" or "[address]:port" in two. Throws Error{usage}.
HostAndPort parse_rendezvous(const std::string& text);

}  // namespace troupe::launch
