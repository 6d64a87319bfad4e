#include "actors/agent/agent_actor.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <caf/io/middleman.hpp>
#include <utility>

#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

/// How long the launcher may leave beats unanswered: longer than it waits for this host before it
/// does without, so that no state is thrown away that it still counts on.
constexpr double kCutOffS = 8;

Outcome retry(std::string reason) {
  return {.exit_code = static_cast<int>(ErrorKind::retry), .reason = std::move(reason)};
}

}  // namespace

AgentActor::AgentActor(caf::actor_config& config, AgentSpec spec, const caf::actor& hosts,
                       LocalProcesses& processes, OwnThreads& own_threads,
                       std::function<void(const Outcome&)> on_end)
    : ControlActor(config),
      spec_(std::move(spec)),
      hosts_(caf::actor_cast<HostsRef>(hosts)),
      files_(*this, spec_, own_threads),
      processes_(processes),
      on_end_(std::move(on_end)),
      surveyor_(*this, spec_.hello.address, own_threads) {}

/// A handler of the launcher's orders. The door is open to all processes of this host, whose
/// messages of this kind are ignored.
template <typename Order, typename Handler>
auto AgentActor::of_launcher(Handler handler) {
  return [this, handler](const Order& order) {
    if (current_sender() && current_sender() == caf::actor_cast<caf::strong_actor_ptr>(hosts_))
      handler(order);
  };
}

caf::behavior AgentActor::make_behavior() {
  monitor(hosts_);
  join();
  return behavior_of<AgentRef>(
      {
          // The answer goes from the director to the worker, and makes them known to each other.
          [this](const Hello& hello) { return delegate(hosts_, hello); },
          of_launcher<StartWorker>([this](const auto& order) { start(order); }),
          of_launcher<StopWorkers>([this](const auto& order) { stop(order); }),
          of_launcher<DirectorBeat>([this](const auto& answer) { answered(answer); }),
          of_launcher<FilesWanted>([this](const auto& wanted) { files_.look_for(wanted); }),
          of_launcher<FilesAway>([this](const auto& away) { files_.bring(away); }),
          [this](const FilesNeeded& needed) { return files_.need(needed); },
          of_launcher<SurveyBegun>([this](const auto& order) { surveyor_.obey(order); }),
          of_launcher<ProbeLinks>([this](const auto& order) { surveyor_.obey(order); }),
          of_launcher<SurveyEnded>([this](const auto& order) { surveyor_.obey(order); }),
          of_launcher<Dismissed>([this](const auto& order) {
            end({.exit_code = order.exit_code, .reason = order.reason});
          }),
      },
      {
          [this](const WorkerExited& exit) { ended(exit); },
          [this](const FilesLookedFor& result) { send(hosts_, result.seen); },
          [this](const Brought& result) { send(hosts_, files_.brought(result)); },
          [this](const LogEnds& log) { tell_end(log.exit); },
          [this](const SurveyorTold& told) {
            std::visit([this](const auto& answer) { send(hosts_, answer); }, told.what);
          },
          [this](const LeaveOrdered& order) { send(hosts_, HostLeaves{.cause = order.cause}); },
          [this](Tick) { beat(); },
      });
}

void AgentActor::on_exit() {
  surveyor_.stop();
  files_.end();
  hosts_ = nullptr;
}

void AgentActor::join() {
  const auto port = system().middleman().publish(caf::actor_cast<caf::actor>(this), 0, "127.0.0.1");
  if (!port) return end(retry("cannot open a port for workers: " + system().render(port.error())));
  door_ = *port;
  HostHello hello = spec_.hello;
  if (spec_.ends_s > 0)
    hello.seconds_left =
        std::max(std::int64_t{1}, static_cast<std::int64_t>(spec_.ends_s - now_s()));
  request(hosts_, kRequestDeadline, hello)
      .then([this](const HostWelcome& welcome) { welcomed(welcome); },
            [this](const caf::error& error) {
              end({.exit_code = static_cast<int>(ErrorKind::unavailable),
                   .reason = "the launcher did not answer: " + system().render(error)});
            });
}

void AgentActor::welcomed(const HostWelcome& welcome) {
  if (!welcome.refused.empty()) return end({.exit_code = welcome.code, .reason = welcome.refused});
  answered_s_ = now_s();
  beat();
}

void AgentActor::start(const StartWorker& order) {
  WorkerBootstrap bootstrap = order.bootstrap;
  bootstrap.host = "127.0.0.1";
  bootstrap.port = door_;
  bootstrap.cores = spec_.hello.host.cores;
  bootstrap.device = spec_.device;
  files_.place(bootstrap);
  workers_.insert(bootstrap.incarnation);
  processes_.spawn(bootstrap);
}

void AgentActor::stop(const StopWorkers& order) {
  if (order.all) return processes_.kill_all();
  for (const std::uint64_t incarnation : order.incarnations) processes_.kill(incarnation);
}

void AgentActor::ended(const WorkerExited& exit) {
  workers_.erase(exit.incarnation);
  if (!files_.tells_of(exit)) tell_end(exit);
}

void AgentActor::tell_end(const WorkerExited& exit) {
  send(hosts_,
       WorkerEnded{
           .incarnation = exit.incarnation, .exit_code = exit.exit_code, .cause = exit.cause});
}

void AgentActor::beat() {
  if (now_s() - answered_s_ > kCutOffS) return end(retry("the launcher has not answered for 8 s"));
  AgentBeat beat;
  for (const std::uint64_t worker : workers_)
    beat.cpu_seconds[worker] = processes_.cpu_seconds(worker);
  beat.sent_s = now_s();
  if (const auto ahead = clock_.ahead(beat.sent_s)) beat.clock = *ahead;
  send(hosts_, beat);
  delayed_send(this, kHeartbeatInterval, Tick{});
}

void AgentActor::answered(const DirectorBeat& answer) {
  answered_s_ = now_s();
  clock_.add({.sent_s = answer.asked_s, .there_s = answer.sent_s, .back_s = answered_s_});
}

void AgentActor::end(const Outcome& outcome) {
  if (const auto tell = std::exchange(on_end_, {})) tell(outcome);
  quit();
}

void AgentActor::on_failure(const std::string& what) {
  spdlog::error("the agent: {}", what);
  end({.exit_code = static_cast<int>(ErrorKind::internal), .reason = what});
}

void AgentActor::on_down(const caf::actor_addr&) {
  end(retry("the launcher is gone"));
}

}  // namespace troupe::actors
