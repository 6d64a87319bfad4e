#include "actors/agent/host_agent.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>

#include <algorithm>
#include <caf/actor_system.hpp>
#include <caf/io/middleman.hpp>
#include <caf/scoped_actor.hpp>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "actors/agent/agent_actor.h"
#include "actors/messages/start_deadline.h"
#include "actors/security/secure_links.h"
#include "actors/security/sockets.h"
#include "tensor/errors/error.h"
#include "transport/ucx/network_interface.h"

namespace troupe::actors {
namespace {

/// How long a launcher that accepts connections may take to let one join.
constexpr std::chrono::seconds kHandshake{10};

class Agent : public HostAgent {
 public:
  explicit Agent(const AgentSpec& spec)
      : spec_(spec),
        processes_(spec.worker_command, [this](const WorkerExited& exit) { tell(exit); }) {}

  ~Agent() override {
    caf::scoped_actor self{system_};
    self->send_exit(actor(), caf::exit_reason::user_shutdown);
    own_threads_.wait();
  }

  Outcome run() override {
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // what a worker leaves behind ends with this process
    const caf::actor hosts = connect();
    {
      const std::lock_guard lock(mutex_);
      if (!outcome_ && hosts)
        actor_ = system_.spawn<AgentActor>(
            spec_, hosts, processes_, own_threads_,
            [this](const std::string& address, int port) { return links_.answers(address, port); },
            [this](const Outcome& outcome) { end(outcome); });
    }
    if (const caf::actor agent = actor())
      caf::anon_send(agent, DoorOpened{.port = open_door(agent)});
    processes_.run();
    const std::lock_guard lock(mutex_);
    return *outcome_;
  }

  void leave(const std::string& cause) override {
    if (const caf::actor agent = actor())
      caf::anon_send(agent, LeaveOrdered{.cause = cause});
    else
      end({.exit_code = static_cast<int>(ErrorKind::retry), .reason = cause});
  }

  void end(const Outcome& outcome) override {
    {
      const std::lock_guard lock(mutex_);
      if (!outcome_) outcome_ = outcome;
    }
    processes_.quit();
  }

 private:
  /// The launcher's actor for hosts; empty if the agent was ended before the launcher was there.
  caf::actor connect() {
    const auto begin = std::chrono::steady_clock::now();
    auto deadline = begin + to_milliseconds(std::max(spec_.patience_s, 1.0));
    while (true) {
      std::optional<Error> fault;
      try {
        return links_.connect(spec_.address, spec_.port, kHandshake);
      } catch (const Unreachable& error) {  // it may come yet, or its name
        fault.emplace(error.kind(), fmt::format("the launcher cannot be reached: {}; does a "
                                                "firewall let this host pass?",
                                                error.what()));
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::retry) throw;
        fault = error;  // more hosts join at once than it attends to
        deadline = std::max(deadline, begin + kHandshake);
      }
      if (std::chrono::steady_clock::now() > deadline) throw *fault;
      if (spec_.is_wanted && !spec_.is_wanted())
        end({.exit_code = static_cast<int>(ErrorKind::retry), .reason = "the launcher is gone"});
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      const std::lock_guard lock(mutex_);
      if (outcome_) return {};
    }
  }
  /// Lets other launchers reach the agent. Without a free port they cannot, and nothing else is
  /// amiss.
  int open_door(const caf::actor& agent) {
    const auto ports = transport::parse_ports(spec_.ports).value_or(transport::PortRange{});
    try {
      return links_.publish(agent, spec_.hello.address, ports);
    } catch (const Error& error) {
      spdlog::warn("no other launcher will find this host: {}", error.what());
      return 0;
    }
  }
  caf::actor actor() {
    const std::lock_guard lock(mutex_);
    return actor_;
  }
  void tell(const WorkerExited& exit) {
    if (const caf::actor agent = actor()) caf::anon_send(agent, exit);
  }

  const AgentSpec spec_;
  std::mutex mutex_;  // guards the two below
  std::optional<Outcome> outcome_;
  caf::actor actor_;
  LocalProcesses processes_;
  OwnThreads own_threads_;
  ControlPlaneConfig config_{1};
  caf::actor_system system_{config_};
  SecureLinks links_{system_, Role::host, spec_.credentials};
};

}  // namespace

std::unique_ptr<HostAgent> HostAgent::create(const AgentSpec& spec) {
  const StartDeadline deadline;
  return std::make_unique<Agent>(spec);
}

}  // namespace troupe::actors
