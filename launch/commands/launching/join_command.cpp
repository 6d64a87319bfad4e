#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <thread>
#include <utility>

#include "actors/agent/host_agent.h"
#include "actors/messages/secret.h"
#include "launch/commands/launching/join_run.h"
#include "launch/commands/options.h"
#include "launch/host/console.h"
#include "launch/host/machine.h"
#include "launch/host/signals.h"
#include "launch/hosts/hosts_plan.h"
#include "launch/hosts/invitation.h"
#include "launch/hosts/traits.h"
#include "launch/manifest/inputs/corpus.h"
#include "launch/run/run_directory.h"
#include "tensor/errors/error.h"
#include "transport/ucx/network_interface.h"

namespace troupe::launch {
namespace {

using Clock = std::chrono::steady_clock;

/// Between two looks for a launcher that is not there yet.
constexpr std::chrono::milliseconds kLook{200};

Invitation read_invitation() {
  std::string line;
  std::getline(std::cin, line);
  return parse_invitation(line);
}

Invitation invitation_to(const HostAndPort& launcher, const std::string& token_file) {
  const actors::Authority authority(read_token(token_file));
  return {.address = launcher.host,
          .port = launcher.port,
          .credentials = actors::to_text(authority.issue(actors::Role::host, host_name()))};
}

Invitation invitation_by(const JoinOptions& options) {
  if (options.run == "-") return read_invitation();
  if (!options.rendezvous.empty())
    return invitation_to(parse_rendezvous(options.rendezvous), options.token_file);
  const std::filesystem::path file = std::filesystem::path(options.run) / kInvitationFile;
  std::ifstream in(file);
  std::string line;
  if (!in.is_open() && std::filesystem::exists(file))
    throw Error(ErrorKind::unavailable,
                fmt::format("{} cannot be read: only the user who has launched the run may join "
                            "it; is this another one?",
                            file.string()));
  if (!std::getline(in, line))
    throw Error(ErrorKind::unavailable,
                fmt::format("{} has no invitation for hosts, {}: the run is not live, or was "
                            "launched for one host alone; launch it with hosts, or with "
                            "--wait-for-hosts",
                            options.run, kInvitationFile));
  return parse_invitation(line);
}

/// A signal asks the run to go on without this host, which sets `left`; one that means to end at
/// once does.
void serve_signals(SignalWatch& signals, actors::HostAgent& agent, std::atomic<bool>& left) {
  const auto leave = [&](const std::string& cause) {
    left = true;
    agent.leave(cause);
  };
  signals.orders({.save = leave, .stop = leave, .stop_now = [&agent](const std::string& reason) {
                    agent.end({.exit_code = static_cast<int>(ErrorKind::retry), .reason = reason});
                  }});
}

/// The interface of the route to the launcher, whose name may not be known yet.
transport::NetworkInterface interface_by(const Invitation& invitation, Clock::time_point deadline) {
  if (!invitation.interface.empty()) try {
      return transport::find_interface(invitation.interface);
    } catch (const Error& error) {
      throw Error(error.kind(), std::string("cluster.interface: ") + error.what());
    }
  while (true) try {
      return transport::interface_towards(invitation.address);
    } catch (const Error&) {
      if (Clock::now() > deadline) throw;
      std::this_thread::sleep_for(kLook);
    }
}

/// Whether who has sent an invitation on standard input, and nothing else there, still has it open.
bool has_open_input() {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return poll(&input, 1, 0) == 0;
}

/// Waits for an invitation in the file, for `patience` at most, and does what join_run() does.
int join_when_invited(const std::filesystem::path& file, int slots,
                      std::chrono::duration<double> patience, SignalWatch& signals) {
  // An invitation that an earlier launch could not take away names nobody: the next one replaces
  // it.
  constexpr std::chrono::seconds kAnswers{5};
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
  while (true) {
    std::string line;
    std::ifstream in(file);
    if (std::getline(in, line)) try {
        return join_run(parse_invitation(line), slots, kAnswers, signals);
      } catch (const Error&) {
        if (Clock::now() > deadline) throw;
      }
    if (Clock::now() > deadline)
      throw Error(ErrorKind::unavailable,
                  fmt::format("waited {:g} s for the job's first process to leave an invitation in "
                              "{}, which all its hosts must see",
                              patience.count(), file.string()));
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace

int join_run(const Invitation& invitation, int slots, std::chrono::duration<double> patience,
             SignalWatch& signals, std::function<bool()> is_wanted) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
  for (const auto& [name, value] : invitation.environment) setenv(name.c_str(), value.c_str(), 1);
  const Machine machine = this_machine();
  const transport::NetworkInterface interface = interface_by(invitation, deadline);
  const std::string own = own_environment()("SLURMD_NODENAME").value_or(host_name());
  const actors::Credentials credentials = actors::parse_credentials(invitation.credentials);
  const auto agent = actors::HostAgent::create(
      {.hello = {.token = credentials.token,
                 .host = {.name = invitation.host.empty() ? own : invitation.host,
                          .slots = slots,
                          .cores = machine.own_cores(),
                          .memory_bytes = machine.memory_bytes},
                 .incarnation = actors::random_u64(),
                 .address = interface.address,
                 .traits = own_traits()},
       .ends_s = own_time_limit(),
       .credentials = credentials,
       .address = invitation.address,
       .port = invitation.port,
       .patience_s = patience.count(),
       .is_wanted = std::move(is_wanted),
       .worker_command = {"/proc/self/exe", "worker"},
       .device = interface.address,
       .ports = invitation.ports,
       .cache = token_cache});
  std::atomic<bool> left = false;
  serve_signals(signals, *agent, left);
  const actors::Outcome outcome = agent->run();
  signals.orders({});
  if (outcome.exit_code != 0) print_error(outcome.reason);
  // Who started this agent may want another one in its place, unless it was a launcher: that one
  // has let it go.
  const bool is_invited = !invitation.host.empty();
  return outcome.exit_code == 0 && left && !is_invited ? static_cast<int>(ErrorKind::retry)
                                                       : outcome.exit_code;
}

int join_of_job(const HostOptions& options, const Job& job, const Manifest& manifest,
                const std::filesystem::path& run, SignalWatch& signals) {
  if (!job.is_first_of_host || job.num_hosts <= 1) return 0;
  const int slots = own_slots(manifest, job);
  const std::chrono::duration<double> patience(manifest->engine.wait_s);
  if (options.token_file.empty())
    return join_when_invited(invitation_file(run, job), slots, patience, signals);
  return join_run(invitation_to(rendezvous_of(options, job), options.token_file), slots, patience,
                  signals);
}

int run(const JoinOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);
  SignalWatch signals(" before it had joined");
  // One that has sent an invitation is there, or is gone for good.
  const bool is_sent = options.run == "-";
  const std::chrono::duration<double> patience(is_sent ? 10 : options.wait_s);
  return join_run(invitation_by(options), options.slots, patience, signals,
                  is_sent ? has_open_input : std::function<bool()>());
}

}  // namespace troupe::launch
