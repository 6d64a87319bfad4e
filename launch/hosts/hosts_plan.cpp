#include "launch/hosts/hosts_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "actors/security/credentials.h"
#include "actors/security/sockets.h"
#include "launch/host/host_list.h"
#include "launch/host/machine.h"
#include "launch/manifest/resolve/run_spec.h"
#include "tensor/errors/error.h"
#include "transport/ucx/network_interface.h"

namespace troupe::launch {
namespace {

using actors::Host;
using Start = HostsPlan::Start;

HostsPlan of_many(Start start, std::vector<Host> named, const std::string& own = "") {
  const int count = static_cast<int>(named.size());
  return {.start = start, .named = std::move(named), .count = count, .own = own};
}

void meet_at(HostsPlan& plan, const HostAndPort& place) {
  plan.address = place.host;
  plan.port = place.port;
}

HostsPlan plan_of_job(const HostOptions& options, const Manifest& manifest, const Job& job) {
  if (job.kind == Job::Kind::none || job.num_hosts <= 1) return {};
  if (job.kind == Job::Kind::allocation) return of_many(Start::srun, job.hosts, job.own);
  HostsPlan plan = of_many(Start::themselves, job.hosts, job.own);
  plan.count = job.num_hosts;
  plan.own_slots = own_slots(manifest, job);
  if (options.token_file.empty()) {
    plan.shared = invitation_file(manifest->dir, job);
  } else {
    meet_at(plan, rendezvous_of(options, job));
    plan.token = read_token(options.token_file);
  }
  return plan;
}

}  // namespace

void keep_hosts(const HostOptions& options, Manifest& manifest) {
  if (!options.hostfile.empty()) {
    std::vector<std::string> entries;
    for (const Host& host : read_hostfile(options.hostfile))
      entries.push_back(actors::address_text(host.name, host.slots));
    manifest.override_with(manifest.key_of(manifest->hosts), std::move(entries),
                           "--hostfile " + options.hostfile);
  }
  const auto& kind = manifest->engine.kind;
  if (options.wait_for_hosts > 0 && kind == Settings::EngineKind::automatic)
    manifest.override_with(manifest.key_of(kind), std::string("join"),
                           fmt::format("--wait-for-hosts {}", options.wait_for_hosts));
}

HostsPlan plan_hosts(const HostOptions& options, const Manifest& manifest, const Job& job) {
  using EngineKind = Settings::EngineKind;
  const EngineKind kind = manifest->engine.kind;
  if (kind == EngineKind::local) return {};
  std::vector<Host> named = to_run_spec(manifest).cluster.hosts;
  if (options.wait_for_hosts > 0 || kind == EngineKind::join) {
    HostsPlan plan = of_many(Start::themselves, std::move(named));
    if (options.wait_for_hosts > 0) plan.count = options.wait_for_hosts;
    if (plan.count == 0)
      throw Error(ErrorKind::usage,
                  "cluster.engine = 'join': how many hosts are to come? Give --wait-for-hosts N, "
                  "this one included, or cluster.engine = 'local' for this one alone");
    if (!options.rendezvous.empty()) meet_at(plan, parse_rendezvous(options.rendezvous));
    if (!options.token_file.empty()) plan.token = read_token(options.token_file);
    plan.token_file = !options.token_file.empty() ? std::filesystem::path(options.token_file)
                                                  : token_file(manifest->dir);
    return plan;
  }
  if (!named.empty()) return of_many(Start::ssh, std::move(named));
  if (kind == EngineKind::ssh)
    throw Error(ErrorKind::manifest,
                "cluster.engine = 'ssh' needs hosts: cluster.hosts, or launch --hostfile FILE");
  const Job::Kind needed = kind == EngineKind::slurm ? Job::Kind::allocation : Job::Kind::process;
  if (kind != EngineKind::automatic && job.kind != needed)
    throw Error(ErrorKind::unavailable,
                kind == EngineKind::slurm
                    ? "cluster.engine = 'slurm', but SLURM_JOB_NODELIST is not in the environment: "
                      "launch within an allocation, of sbatch or salloc"
                    : "cluster.engine = 'mpi', but the environment has no number of a process: "
                      "launch by mpirun, srun or torchrun");
  return plan_of_job(options, manifest, job);
}

bool HostsPlan::Takeover::has_agent(const std::string& host) const {
  return std::ranges::find(agents, host, &actors::AgentRecord::host) != agents.end();
}

int own_slots(const Manifest& manifest, const Job& job) {
  return job.num_processes >= manifest->num_ranks() ? job.own_processes : 0;
}

HostAndPort rendezvous_of(const HostOptions& options, const Job& job) {
  const std::string& place = options.rendezvous.empty() ? job.rendezvous : options.rendezvous;
  if (place.empty())
    throw Error(ErrorKind::usage,
                fmt::format("--token-file {}: where do the processes of this job meet? MASTER_ADDR "
                            "and MASTER_PORT are not set, or torchrun listens there itself; give "
                            "--rendezvous HOST:PORT, a name of the first host and a free port",
                            options.token_file));
  return parse_rendezvous(place);
}

std::filesystem::path token_file(const std::filesystem::path& run) {
  return run.parent_path() / fmt::format(".{}.token", run.filename().string());
}

std::filesystem::path invitation_file(const std::filesystem::path& run, const Job& job) {
  return run.parent_path() / fmt::format(".{}.{}.join", run.filename().string(), job.key);
}

std::string read_token(const std::string& file) {
  std::istringstream in(actors::read_private_file(file));
  std::string token;
  if (!(in >> token))
    throw Error(ErrorKind::data, file + ": no token is in it; it must hold one word");
  return token;
}

std::string find_own_host(const std::vector<Host>& hosts) {
  const std::string name = host_name();
  const std::string short_name = name.substr(0, name.find('.'));
  const auto interfaces = transport::network_interfaces();
  for (const Host& host : hosts) {
    if (host.name == name || host.name == short_name || host.name == "localhost") return host.name;
    for (const auto& interface : interfaces)
      if (interface.address == host.name) return host.name;
  }
  return "";
}

HostAndPort parse_rendezvous(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  HostAndPort place;
  if (colon != text.npos) {
    place.host = text.substr(0, colon);
    if (place.host.starts_with('[') && place.host.ends_with(']'))
      place.host = place.host.substr(1, place.host.size() - 2);
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, place.port);
    if (error == std::errc{} && rest == end && place.port > 0 && place.port < 65536 &&
        !place.host.empty())
      return place;
  }
  throw Error(
      ErrorKind::usage,
      fmt::format("rendezvous '{}': expected a host's name and a port, as head:29600", text));
}

}  // namespace troupe::launch
