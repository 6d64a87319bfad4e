#include "actors/agent/agent_actor.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "actors/messages/secret.h"
#include "actors/security/local_door.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

Outcome retry(std::string reason) {
  return {.exit_code = static_cast<int>(ErrorKind::retry), .reason = std::move(reason)};
}

}  // namespace

AgentActor::AgentActor(caf::actor_config& config, AgentSpec spec, const caf::actor& hosts,
                       LocalProcesses& processes, OwnThreads& own_threads, Answers answers,
                       std::function<void(const Outcome&)> on_end)
    : ControlActor(config),
      spec_(std::move(spec)),
      hosts_(caf::actor_cast<HostsRef>(hosts)),
      files_(*this, spec_, own_threads),
      processes_(processes),
      own_threads_(own_threads),
      answers_(std::move(answers)),
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
  open_door_of_workers();
  return behavior_of<AgentRef>(
      {
          // The answer goes from the director to the worker, and makes them known to each other.
          [this](const Hello& hello) { return delegate(hosts_, hello); },
          of_launcher<StartWorker>([this](const auto& order) { start(order); }),
          of_launcher<StopWorkers>([this](const auto& order) { stop(order); }),
          of_launcher<DirectorBeat>([this](const auto& answer) { answered(answer); }),
          of_launcher<FilesWanted>([this](const auto& wanted) { files_.look_for(wanted); }),
          of_launcher<FilesAway>([this](const auto& away) { files_.bring(away); }),
          [this](const FilesNeeded& needed) { return need(needed); },
          of_launcher<SurveyBegun>([this](const auto& order) { surveyor_.obey(order); }),
          of_launcher<ProbeLinks>([this](const auto& order) { surveyor_.obey(order); }),
          of_launcher<SurveyEnded>([this](const auto& order) { surveyor_.obey(order); }),
          of_launcher<Dismissed>([this](const auto& order) {
            end({.exit_code = order.exit_code, .reason = order.reason});
          }),
          [this](const AskAgent& question) { return state(question); },
          [this](const TakeOver& order) { return turn_to(order); },
          of_launcher<RunBegins>([this](const auto& order) { begin(order); }),
          [this](const Resident& resident) { note(resident); },
      },
      {
          [this](const DoorOpened& door) { join(door); },
          [this](const WorkerExited& exit) { ended(exit); },
          [this](const FilesLookedFor& result) { send(hosts_, result.seen); },
          [this](const Brought& result) { send(hosts_, files_.brought(result)); },
          [this](const LogEnds& log) { tell_end(log.exit); },
          [this](const SurveyorTold& told) {
            std::visit([this](const auto& answer) { send(hosts_, answer); }, told.what);
          },
          [this](const LauncherLookedFor& result) { looked(result); },
          [this](const LeaveOrdered& order) { leave(order); },
          [this](Tick) { beat(); },
      });
}

void AgentActor::on_exit() {
  surveyor_.stop();
  files_.end();
  hosts_ = nullptr;
  residents_.clear();
}

void AgentActor::open_door_of_workers() try {
  door_ = publish_locally(caf::actor_cast<caf::actor>(this));
} catch (const Error& error) {
  end(retry(error.what()));
}

/// What it offers, now.
HostHello AgentActor::hello() const {
  HostHello hello = spec_.hello;
  hello.door = outer_door_;
  if (spec_.ends_s > 0)
    hello.seconds_left =
        std::max(std::int64_t{1}, static_cast<std::int64_t>(spec_.ends_s - now_s()));
  return hello;
}

void AgentActor::join(const DoorOpened& door) {
  outer_door_ = door.port;
  request(hosts_, kRequestDeadline, hello())
      .then([this](const HostWelcome& welcome) { welcomed(welcome); },
            [this](const caf::error& error) {
              end({.exit_code = static_cast<int>(ErrorKind::unavailable),
                   .reason = "the launcher did not answer: " + system().render(error)});
            });
}

void AgentActor::welcomed(const HostWelcome& welcome) {
  if (!welcome.refused.empty()) return end({.exit_code = welcome.code, .reason = welcome.refused});
  allegiance_.heard(now_s());
  joined_ = true;
  beat();
}

void AgentActor::start(const StartWorker& order) {
  WorkerBootstrap bootstrap = order.bootstrap;
  bootstrap.host = "127.0.0.1";
  bootstrap.port = door_;
  bootstrap.cores = spec_.hello.host.cores;
  bootstrap.device = spec_.device;
  files_.place(bootstrap);
  workers_[bootstrap.incarnation] = bootstrap.token;
  processes_.spawn(bootstrap);
}

void AgentActor::stop(const StopWorkers& order) {
  if (order.all) return processes_.kill_all();
  for (const std::uint64_t incarnation : order.incarnations) processes_.kill(incarnation);
}

void AgentActor::ended(const WorkerExited& exit) {
  workers_.erase(exit.incarnation);
  residents_.erase(exit.incarnation);
  inherited_.erase(exit.incarnation);
  if (!files_.tells_of(exit)) tell_end(exit);
}

void AgentActor::tell_end(const WorkerExited& exit) {
  send(hosts_,
       WorkerEnded{
           .incarnation = exit.incarnation, .exit_code = exit.exit_code, .cause = exit.cause});
}

void AgentActor::leave(const LeaveOrdered& order) {
  // Before it has joined it has no ranks, and later there may be nobody to take them.
  if (!joined_ || allegiance_.is_orphaned(now_s())) return end(retry(order.cause));
  send(hosts_, HostLeaves{.cause = order.cause});
}

void AgentActor::beat() {
  if (ends_if_over()) return;
  look_for_launcher();
  AgentBeat beat;
  for (const auto& [worker, token] : workers_)
    beat.cpu_seconds[worker] = processes_.cpu_seconds(worker);
  beat.sent_s = now_s();
  if (const auto ahead = clock_.ahead(beat.sent_s)) beat.clock = *ahead;
  send(hosts_, beat);
  delayed_send(this, kHeartbeatInterval, Tick{});
}

void AgentActor::answered(const DirectorBeat& answer) {
  const double now = now_s();
  allegiance_.heard(now);
  clock_.add({.sent_s = answer.asked_s, .there_s = answer.sent_s, .back_s = now});
}

bool AgentActor::ends_if_over() {
  const std::string why = allegiance_.over(now_s());
  if (!why.empty()) end(retry(why));
  return !why.empty();
}

// --- launchers that take over

AgentState AgentActor::state(const AskAgent& question) const {
  if (!equal_secrets(question.token, spec_.hello.token)) return {};
  const double now = now_s();
  AgentState state{.hello = hello(),
                   .term = allegiance_.term(),
                   .is_orphaned = allegiance_.is_orphaned(now),
                   .silent_s = allegiance_.silent_s(now)};
  state.hello.token.clear();
  return state;
}

TakenOver AgentActor::turn_to(const TakeOver& order) {
  if (!equal_secrets(order.token, spec_.hello.token) || !current_sender())
    return {.refused = "the token is not this run's"};
  const auto launcher = caf::actor_cast<HostsRef>(current_sender());
  const bool obeys_already = launcher == hosts_ && order.term == allegiance_.term();
  if (!obeys_already && !allegiance_.turns_to(order.term, now_s()))
    return {.refused = "it obeys a launcher of term " + std::to_string(allegiance_.term())};
  if (!obeys_already) {
    demonitor(caf::actor_cast<caf::actor>(hosts_));
    hosts_ = launcher;
    joined_ = true;
    monitor(hosts_);
    clock_ = {};
    for (const auto& [worker, token] : workers_)
      residents_.contains(worker) ? (void)inherited_.insert(worker) : processes_.kill(worker);
    spdlog::info("obeys another launcher, of term {}", order.term);
  }
  return {.refused = "", .hello = hello(), .workers = {inherited_.begin(), inherited_.end()}};
}

void AgentActor::begin(const RunBegins& order) {
  begin_ = order;
  allegiance_.begins(order.term, order.wait_s, order.silent_s);
  for (const std::uint64_t worker : std::exchange(inherited_, {}))
    send(residents_.at(worker), NewDirector{.term = order.term, .token = order.token});
}

/// A launcher that is there although the connection has ended goes on without this host, whose
/// workers would only be in the way of those of the next agent.
void AgentActor::look_for_launcher() {
  if (!allegiance_.is_gone() || begin_.port == 0 || std::exchange(looks_, true)) return;
  system().spawn<caf::detached>([agent = caf::actor_cast<caf::actor>(this), begin = begin_,
                                 answers = answers_, thread = own_threads_.token()] {
    caf::anon_send(agent, LauncherLookedFor{.term = begin.term,
                                            .is_there = answers(begin.address, begin.port)});
  });
}

void AgentActor::looked(const LauncherLookedFor& result) {
  looks_ = false;
  if (result.is_there && result.term == allegiance_.term() && allegiance_.is_gone())
    end(retry("the run has gone on without this host"));
}

void AgentActor::note(const Resident& resident) {
  if (current_sender() && workers_.contains(resident.incarnation))
    residents_[resident.incarnation] = caf::actor_cast<StageRef>(current_sender());
}

/// Workers of an earlier launcher have another token than those that were started since.
caf::result<FilesHere> AgentActor::need(const FilesNeeded& needed) {
  const auto asks = [&](const auto& worker) { return equal_secrets(worker.second, needed.token); };
  if (std::ranges::none_of(workers_, asks)) return caf::sec::unexpected_message;
  return files_.need(needed);
}

void AgentActor::end(const Outcome& outcome) {
  if (const auto tell = std::exchange(on_end_, {})) tell(outcome);
  quit();
}

void AgentActor::on_failure(const std::string& what) {
  spdlog::error("the agent: {}", what);
  end({.exit_code = static_cast<int>(ErrorKind::internal), .reason = what});
}

void AgentActor::on_down(const caf::actor_addr& who) {
  if (who != hosts_) return;  // it obeys another one by now
  allegiance_.gone(now_s());
  if (!ends_if_over()) spdlog::warn("the launcher is gone; the workers are kept for another one");
}

}  // namespace troupe::actors
