#include "actors/hosts/hosts_actor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/hosts/hosts.h"
#include "actors/hosts/run_files_actor.h"
#include "actors/messages/secret.h"
#include "tensor/errors/error.h"
#include "transport/ucx/network_interface.h"

namespace troupe::actors {

HostsActor::HostsActor(caf::actor_config& config, HostsContext context)
    : ControlActor(config),
      context_(std::move(context)),
      liveness_({.silent_s = context_.silent_s, .hang_s = 0}) {}

caf::behavior HostsActor::make_behavior() {
  delayed_send(this, kLivenessTick, Tick{});
  return behavior_of<HostsRef>(
      {
          [this](const HostHello& hello) { return welcome(hello); },
          [this](const Hello& hello) -> caf::result<Welcome> {
            if (!director_) return caf::sec::request_receiver_down;
            return delegate(caf::actor_cast<DirectorRef>(director_), hello);
          },
          [this](const AgentBeat& beat) { on_beat(beat); },
          [this](const WorkerEnded& end) { on_ended(end); },
          [this](const HostLeaves& leave) { on_leaves(leave); },
          [this](const FilesSeen& seen) { on_seen(seen); },
          [this](const FilesBrought& brought) { on_brought(brought); },
          [this](const HostSurveyed& answer) { surveyed(answer); },
          [this](const LinksProbed& answer) { surveyed(answer); },
      },
      {
          [this](const OrderToHosts& order) {
            std::visit([this](const auto& x) { carry_out(x); }, order.order);
          },
          [this](const DirectorStarts& start) { serve(start); },
          [this](const FilesOffered& files) { take(files.offer); },
          [this](const BringFiles& order) { bring(order.host, order.away); },
          [this](const PartHoldersWanted& wanted) { return holders_among(wanted.hosts); },
          [this](DropParts) {
            for (const auto& [host, parts] : parts_)
              if (parts) send(parts, PartsDropped{});
          },
          [this](const CallAgent& order) { call(order); },
          [this](const HostsDismissed& order) { dismiss(order.reason); },
          [this](const HostAdmitted& newcomer) { admit(newcomer); },
          [this](const HostGivenUp& order) { lose(order.host, order.cause); },
          [this](const SurveyWanted& wanted) { surveys_.ask(wanted); },
          [this](const SurveyorTold& told) {
            std::visit([this](const auto& x) { surveys_.take(context_.own, x); }, told.what);
          },
          [this](Tick) {
            look_for_silent();
            surveys_.pass(std::chrono::duration<double>(kLivenessTick).count());
            delayed_send(this, kLivenessTick, Tick{});
          },
      });
}

void HostsActor::on_exit() {
  surveyor_.stop();
  agents_.clear();
  parts_.clear();
  if (run_files_) caf::anon_send(run_files_, RunFilesEnd{});
  director_ = run_files_ = nullptr;
}

// --- hosts join and live

HostWelcome HostsActor::welcome(const HostHello& hello) {
  if (!equal_secrets(hello.token, context_.token) || !current_sender())
    return {.refused = "the token is not this run's",
            .code = static_cast<int>(ErrorKind::unavailable)};
  const std::string why = take_in(hello, current_sender(), {});
  return {.refused = why, .code = why.empty() ? 0 : static_cast<int>(ErrorKind::unavailable)};
}

std::string HostsActor::take_in(const HostHello& hello, const caf::strong_actor_ptr& agent,
                                const std::vector<std::uint64_t>& inherited) {
  if (const std::string why = refusal_of(hello); !why.empty()) {
    context_.registry.refuse(hello.host.name, why);
    // Who starts its agent does so again and again.
    if (director_ && std::exchange(told_refusals_[hello.host.name], why) != why)
      caf::anon_send(director_,
                     Note{.text = fmt::format("host {} may not join: {}", hello.host.name, why)});
    return why;
  }
  Host host = hello.host;
  if (const auto named = context_.slots.find(host.name); named != context_.slots.end())
    host.slots = named->second;
  if (host.slots == 0) host.slots = context_.other_slots;
  // An agent of the same host that was not known to be gone is another one's predecessor.
  if (agent_of(host.name)) take_out(host.name, "another agent has come from it");
  monitor(agent);
  const auto actor = caf::actor_cast<AgentRef>(agent);
  agents_[caf::actor_cast<caf::actor_addr>(agent)] = {
      .actor = actor, .host = host.name, .incarnation = hello.incarnation};
  liveness_.watch(hello.incarnation);
  const double ends_s =
      hello.seconds_left > 0 ? now_s() + static_cast<double>(hello.seconds_left) : 0;
  for (const std::uint64_t worker : inherited) context_.registry.started(worker, host.name);
  context_.registry.join({.host = host,
                          .incarnation = hello.incarnation,
                          .address = hello.address,
                          .ends_s = ends_s,
                          .heard_s = now_s(),
                          .door = hello.door,
                          .inherited = inherited});
  if (!director_) return "";
  tell_begin(actor);
  equip({.host = host, .incarnation = hello.incarnation, .ends_s = ends_s});
  return "";
}

/// Has the agent of another launcher join.
void HostsActor::call(const CallAgent& order) {
  request(caf::actor_cast<AgentRef>(order.agent), kRequestDeadline,
          TakeOver{.token = context_.token, .term = order.term})
      .then([this, order](const TakenOver& answer) { called(order, answer); },
            [this, host = order.host](const caf::error& error) {
              context_.registry.refuse(host,
                                       "its agent does not answer: " + system().render(error));
            });
}

void HostsActor::called(const CallAgent& order, const TakenOver& answer) {
  if (!answer.refused.empty()) return context_.registry.refuse(order.host, answer.refused);
  const auto agent = caf::actor_cast<AgentRef>(order.agent);
  if (!order.keeps_workers) send(agent, StopWorkers{.all = true});
  const std::string why =
      take_in(answer.hello, caf::actor_cast<caf::strong_actor_ptr>(agent),
              order.keeps_workers ? answer.workers : std::vector<std::uint64_t>{});
  if (!why.empty())
    send(agent, Dismissed{.exit_code = static_cast<int>(ErrorKind::unavailable), .reason = why});
}

void HostsActor::tell_begin(const AgentRef& agent) {
  send(agent, begin_);
}

std::string differs_in(const HostHello& hello,
                       const std::map<std::string, std::string>& own_traits) {
  if (hello.version != kProtocolVersion)
    return fmt::format(
        "it speaks version {} of the protocol, the launcher {}; install the same "
        "program on both",
        hello.version, kProtocolVersion);
  for (const auto& [name, own] : own_traits) {
    const auto found = hello.traits.find(name);
    const std::string theirs = found == hello.traits.end() ? "unknown" : found->second;
    if (theirs != own)
      return fmt::format("its {} is {}, but the launcher's is {}; {}", name, theirs, own,
                         name == "processor" ? "cluster.mixed_cpus = true accepts it"
                                             : "install the same on both");
  }
  return "";
}

std::string HostsActor::refusal_of(const HostHello& hello) const {
  if (const std::string why = differs_in(hello, context_.traits); !why.empty()) return why;
  if (!context_.trusted_network && !transport::is_private_address(hello.address))
    return fmt::format(
        "its address {} is not private, and messages between ranks are plain text; "
        "cluster.interface names another network, cluster.trusted_network = true "
        "accepts this one",
        hello.address);
  return twice(hello);
}

/// Why a host is one that is there already: ranks on it would be taken for those of two machines.
std::string HostsActor::twice(const HostHello& hello) const {
  const std::string &name = hello.host.name, &address = hello.address;
  const auto is_told = [&](const std::string& other, const std::string& at) {
    return fmt::format("it is host {} at {}, which takes part in the run already", other, at);
  };
  if (!context_.own.empty() && name == context_.own) return is_told(name, context_.address);
  if (address.starts_with("127.") || address == "::1") return "";  // processes of one machine
  if (!context_.own.empty() && address == context_.address)
    return is_told(context_.own, address) + "; it was named twice, or its agent started by hand";
  for (const HostRegistry::Entry& entry : context_.registry.entries())
    if (!entry.lost && entry.address == address && entry.host.name != name)
      return is_told(entry.host.name, address) + "; name it once";
  return "";
}

void HostsActor::on_beat(const AgentBeat& beat) {
  Agent* agent = sender();
  if (!agent) {
    // A host that was given up, and whose network works again.
    if (current_sender())
      send(caf::actor_cast<AgentRef>(current_sender()),
           Dismissed{.exit_code = static_cast<int>(ErrorKind::retry),
                     .reason = "the run has gone on without this host"});
    return;
  }
  liveness_.on_heartbeat({.incarnation = agent->incarnation});
  context_.registry.hear(agent->host, beat.clock);
  for (const auto& [worker, seconds] : beat.cpu_seconds) context_.registry.used(worker, seconds);
  send(agent->actor,
       DirectorBeat{.beat = ++agent->beats, .asked_s = beat.sent_s, .sent_s = now_s()});
}

void HostsActor::on_ended(const WorkerEnded& end) {
  const Agent* agent = sender();
  if (!agent) return;
  const std::string host = agent->host;
  context_.registry.ended(end.incarnation);
  tell(WorkerExited{.incarnation = end.incarnation,
                    .exit_code = end.exit_code,
                    .cause = end.cause,
                    .now_s = now_s()});
  dismiss_if_left(host);
}

void HostsActor::on_leaves(const HostLeaves& leave) {
  Agent* agent = sender();
  if (!agent || std::exchange(agent->leaves, true)) return;
  tell(HostsDraining{.names = {agent->host}, .cause = leave.cause});
  dismiss_if_left(agent->host);
}

/// Lets the agent of a host that is to leave end once it has no worker left.
void HostsActor::dismiss_if_left(std::string host) {
  const Agent* agent = agent_of(host);
  if (!agent || !agent->leaves || !context_.registry.workers_on(host).empty()) return;
  send(agent->actor, Dismissed{.exit_code = 0, .reason = "it has left the run"});
  forget(host);
}

void HostsActor::forget(std::string host) {
  if (const Agent* agent = agent_of(host)) liveness_.forget(agent->incarnation);
  std::erase_if(agents_, [&](const auto& agent) { return agent.second.host == host; });
  if (const auto parts = parts_.find(host); parts != parts_.end()) parts->second = nullptr;
  context_.registry.lose(host);
  surveys_.lose(host);
}

void HostsActor::serve(const DirectorStarts& start) {
  director_ = start.director;
  begin_ = {.term = start.term,
            .wait_s = context_.wait_s,
            .silent_s = context_.silent_s,
            .token = start.token,
            .address = context_.address,
            .port = start.port};
  for (const auto& [address, agent] : agents_) tell_begin(agent.actor);
  for (const auto& entry : context_.registry.entries()) {
    const bool is_known = std::ranges::find(start.known, entry.host.name) != start.known.end();
    if (is_known && entry.lost)
      tell(HostLost{.name = entry.host.name, .cause = "it left at once", .now_s = now_s()});
    else if (!is_known && !entry.lost)
      equip({.host = entry.host, .incarnation = entry.incarnation, .ends_s = entry.ends_s});
  }
}

void HostsActor::look_for_silent() {
  std::vector<std::string> silent;
  for (const WorkerFailed& verdict : liveness_.tick(now_s()))
    for (const auto& [address, agent] : agents_)
      if (agent.incarnation == verdict.incarnation) silent.push_back(agent.host);
  for (const std::string& host : silent)
    lose(host, fmt::format("nothing heard for {} s", context_.silent_s));
}

void HostsActor::on_down(const caf::actor_addr& who) {
  if (const auto found = agents_.find(who); found != agents_.end())
    lose(found->second.host, "its agent has ended or its connection broke");
}

/// Takes a host out of the run, with its workers, and has its agent started anew.
void HostsActor::lose(std::string host, const std::string& cause) {
  take_out(host, cause);
  if (context_.on_lost) context_.on_lost(host);
}

void HostsActor::take_out(const std::string& host, const std::string& cause) {
  const Agent* agent = agent_of(host);
  const bool is_known = !agent || !agent->joins;
  forget(host);
  if (is_known) tell(HostLost{.name = host, .cause = cause, .now_s = now_s()});
}

// --- orders

void HostsActor::carry_out(const StartWorker& order) {
  Agent* agent = agent_of(order.bootstrap.on);
  if (!agent) {
    context_.registry.ended(order.bootstrap.incarnation);
    return tell(WorkerExited{.incarnation = order.bootstrap.incarnation,
                             .exit_code = static_cast<int>(ErrorKind::unavailable),
                             .cause = "a failed start: host " + order.bootstrap.on + " is gone",
                             .now_s = now_s()});
  }
  send(agent->actor, order);
}

void HostsActor::carry_out(const StopWorkers& order) {
  for (const auto& [address, agent] : agents_) send(agent.actor, order);
}

void HostsActor::carry_out(const FilesWanted& order) {
  for (const auto& [address, agent] : agents_) send(agent.actor, order);
}

void HostsActor::carry_out(const LetGo& order) {
  if (Agent* agent = agent_of(order.host)) agent->leaves = true;
  dismiss_if_left(order.host);
}

/// Sends a host its order in a survey. False if the host is gone.
bool HostsActor::survey(const std::string& host, const Survey::Order& order) {
  const Agent* agent = agent_of(host);
  if (!agent && host != context_.own) return false;
  const auto pass_on = [&](const auto& x) { agent ? send(agent->actor, x) : surveyor_.obey(x); };
  std::visit(pass_on, order);
  return true;
}

void HostsActor::dismiss(const std::string& reason) {
  for (const auto& [address, agent] : agents_)
    send(agent.actor, Dismissed{.exit_code = 0, .reason = reason});
  director_ = nullptr;
}

HostsActor::Agent* HostsActor::sender() {
  if (!current_sender()) return nullptr;
  const auto found = agents_.find(caf::actor_cast<caf::actor_addr>(current_sender()));
  return found == agents_.end() ? nullptr : &found->second;
}

HostsActor::Agent* HostsActor::agent_of(const std::string& host) {
  for (auto& [address, agent] : agents_)
    if (agent.host == host) return &agent;
  return nullptr;
}

void HostsActor::tell(Event event) {
  if (director_) caf::anon_send(director_, std::move(event));
}

void HostsActor::on_failure(const std::string& what) {
  tell(DirectorFailed{.message = "the hosts' actor: " + what});
}

}  // namespace troupe::actors
