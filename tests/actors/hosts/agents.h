#pragma once

#include <boost/test/unit_test.hpp>
#include <caf/scoped_actor.hpp>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/agent/host_agent.h"
#include "actors/hosts/hosts.h"
#include "actors/messages/control_plane.h"
#include "actors/messages/interfaces.h"
#include "actors/messages/secret.h"
#include "actors/protocol/protocol_events.h"
#include "tests/support/temp_dir.h"

// Agents, and the launcher's side of them, each in an actor system of its own, on loopback.

namespace troupe::test {

inline const std::map<std::string, std::string> kTraits{{"program", "0.1 (ab)"}, {"UCX", "1.13.1"}};

/// The workers of the launcher's own host, of which there are none.
class NoWorkers : public actors::Processes {
 public:
  void spawn(const actors::WorkerBootstrap&) override { BOOST_ERROR("a worker on the wrong host"); }
  void kill(std::uint64_t) override {}
  void kill_all() override {}
  double cpu_seconds(std::uint64_t) const override { return 0; }
};

/// An agent on a thread, whose workers are this command.
class RunningAgent {
 public:
  RunningAgent(const actors::Authority& authority, int port, const std::string& host,
               std::vector<std::string> command = {"/bin/cat"},
               std::map<std::string, std::string> traits = kTraits,
               const std::string& address = "127.0.0.1")
      : agent_(actors::HostAgent::create(
            {.hello = {.token = authority.issue(actors::Role::host, host).token,
                       .host = {.name = host, .slots = 1, .cores = 3},
                       .incarnation = actors::random_u64(),
                       .address = address,
                       .traits = std::move(traits)},
             .credentials = authority.issue(actors::Role::host, host),
             .address = "127.0.0.1",
             .port = port,
             .worker_command = std::move(command)})),
        outcome_(std::async(std::launch::async, [this] { return agent_->run(); })) {}
  ~RunningAgent() { agent_->end({}); }

  actors::HostAgent& agent() { return *agent_; }
  actors::Outcome outcome() { return outcome_.get(); }

 private:
  std::unique_ptr<actors::HostAgent> agent_;
  std::future<actors::Outcome> outcome_;
};

/// The director's actor as far as hosts know it: takes the events that they send.
class Listener {
 public:
  explicit Listener(actors::Hosts& hosts) : hosts_(hosts), self_{hosts.system()} {}
  void serve(const actors::Service& service) {
    hosts_.serve(caf::actor_cast<caf::actor>(self_), {}, service);
  }
  template <typename E>
  E next() {
    std::optional<E> found;
    while (!found)
      self_->receive([&](const actors::Event& event) {
        if (const auto* one = std::get_if<E>(&event)) found = *one;
      });
    return *found;
  }
  /// Welcomes one worker.
  void welcome() {
    bool done = false;
    while (!done)
      self_->receive(
          [&](const actors::Hello& hello) {
            done = true;
            return actors::Welcome{.manifest = hello.token,
                                   .director = caf::actor_cast<caf::actor>(self_)};
          },
          [](const actors::Event&) {});
  }

 private:
  actors::Hosts& hosts_;
  caf::scoped_actor self_;
};

/// The authority of a run of one launcher.
struct OwnAuthority {
  const actors::Authority own_authority;
};
/// A launcher that names the host h1, of two slots, and lets others have one.
struct Launcher : OwnAuthority {
  /// A run of its own, which begins at once.
  Launcher() : Launcher(own_authority) { director.serve({.term = 1, .token = "first"}); }
  /// A run that others have launched, too. It serves when the caller says so.
  explicit Launcher(const actors::Authority& of_run) : authority(of_run) {}

  const actors::Authority& authority;
  const TempDir dir;
  const std::shared_ptr<actors::Hosts> hosts =
      actors::Hosts::open({.address = "127.0.0.1",
                           .credentials = authority.issue(actors::Role::director, "director"),
                           .traits = kTraits,
                           .slots = {{"h1", 2}},
                           .other_slots = 1,
                           .silent_s = 3,
                           .wait_s = 600,
                           .own = "h0"});
  Listener director{*hosts};
  NoWorkers own;
  const std::unique_ptr<actors::Processes> workers = hosts->workers(own);

  void spawn(std::uint64_t incarnation, const std::string& token = "secret") {
    workers->spawn(
        {.token = token, .incarnation = incarnation, .log_dir = dir.path().string(), .on = "h1"});
  }
};

}  // namespace troupe::test
