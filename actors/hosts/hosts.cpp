#include "actors/hosts/hosts.h"

#include <algorithm>
#include <atomic>
#include <caf/scoped_actor.hpp>
#include <chrono>
#include <set>
#include <utility>

#include "actors/hosts/agent_calls.h"
#include "actors/hosts/director_messages.h"
#include "actors/hosts/hosts_actor.h"
#include "actors/messages/start_deadline.h"
#include "actors/security/secure_links.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

/// How long an agent that was reached may take to turn to this launcher.
constexpr std::chrono::seconds kAnswerPatience{5};

/// Workers whose bootstrap names another host are its agent's, the others those of this host.
class WorkersOfHosts : public Processes {
 public:
  WorkersOfHosts(const HostsSpec& spec, Processes& own, HostRegistry& registry, caf::actor hosts)
      : spec_(spec), own_(own), registry_(registry), hosts_(std::move(hosts)) {}

  void spawn(const WorkerBootstrap& bootstrap) override {
    if (bootstrap.on != spec_.own) {
      registry_.started(bootstrap.incarnation, bootstrap.on);  // now, as it may be killed at once
      return order(StartWorker{.bootstrap = bootstrap});
    }
    WorkerBootstrap here = bootstrap;
    here.device = spec_.device;
    own_.spawn(here);
  }
  void kill(std::uint64_t incarnation) override {
    own_.kill(incarnation);
    if (!registry_.host_of(incarnation).empty()) order(StopWorkers{.incarnations = {incarnation}});
  }
  void kill_all() override {
    own_.kill_all();
    order(StopWorkers{.all = true});
  }
  double cpu_seconds(std::uint64_t incarnation) const override {
    return registry_.host_of(incarnation).empty() ? own_.cpu_seconds(incarnation)
                                                  : registry_.cpu_seconds(incarnation);
  }
  bool hears_host_of(std::uint64_t incarnation) const override {
    return registry_.hears_host_of(incarnation);
  }
  std::optional<ClockAhead> clock_of(std::uint64_t incarnation) const override {
    return registry_.clock_of(incarnation);
  }
  void let_go(const std::string& host) override {
    if (host != spec_.own) order(LetGo{.host = host});
  }

 private:
  template <typename Order>
  void order(const Order& order) {
    caf::anon_send(hosts_, OrderToHosts{order});
  }

  const HostsSpec spec_;
  Processes& own_;
  HostRegistry& registry_;
  const caf::actor hosts_;
};

class OpenHosts : public Hosts {
 public:
  explicit OpenHosts(const HostsSpec& spec) : spec_(spec) {
    actor_ = system_.spawn<HostsActor>(HostsContext{.token = spec.credentials.token,
                                                    .traits = spec.traits,
                                                    .slots = spec.slots,
                                                    .other_slots = spec.other_slots,
                                                    .silent_s = spec.silent_s,
                                                    .trusted_network = spec.trusted_network,
                                                    .wait_s = spec.wait_s,
                                                    .on_lost = spec.on_lost,
                                                    .registry = registry_,
                                                    .own_threads = own_threads_,
                                                    .own = spec.own,
                                                    .address = spec.address,
                                                    .ports = spec.ports});
    const transport::PortRange port{spec.port, spec.port};
    port_ =
        links_.publish(actor_, spec.address,
                       spec.port > 0 ? port : transport::parse_ports(spec.ports).value_or(port));
  }
  ~OpenHosts() override {
    caf::scoped_actor self{system_};
    self->send_exit(actor_, caf::exit_reason::user_shutdown);
    own_threads_.wait();
  }

  int port() const override { return port_; }
  HostRegistry& registry() override { return registry_; }
  caf::actor_system& system() override { return system_; }
  void serve(const caf::actor& director, const std::vector<Host>& hosts,
             const Service& service) override {
    DirectorStarts start{.director = director,
                         .known = {},
                         .term = service.term,
                         .token = service.token,
                         .port = port_};
    for (const Host& host : hosts) {
      if (host.name == spec_.own) own_slots_ = host.slots;
      caf::anon_send(
          director, Event{HostJoined{.host = host, .ends_s = end_of(host.name), .now_s = now_s()}});
      start.known.push_back(host.name);
    }
    caf::anon_send(actor_, start);
  }
  void take_over(const std::vector<AgentRecord>& agents, std::uint64_t term,
                 bool keeps_workers) override {
    call_agents(links_, agents,
                [&](const AgentRecord& record, const caf::actor& agent, const std::string& fault) {
                  if (agent)
                    caf::anon_send(actor_, CallAgent{.agent = agent,
                                                     .host = record.host,
                                                     .term = term,
                                                     .keeps_workers = keeps_workers});
                  else
                    registry_.refuse(record.host, fault);
                });
    const auto deadline = std::chrono::steady_clock::now() + kAnswerPatience;
    registry_.wait([&] {
      std::set<std::string> answered;
      for (const auto& entry : registry_.entries()) answered.insert(entry.host.name);
      for (const auto& [host, cause] : registry_.refusals()) answered.insert(host);
      const auto has_answered = [&](const AgentRecord& agent) {
        return answered.contains(agent.host);
      };
      return std::ranges::all_of(agents, has_answered) ||
             std::chrono::steady_clock::now() > deadline;
    });
  }
  void ask_for(const FilesWanted& files) override {
    registry_.forget_seen();
    caf::anon_send(actor_, OrderToHosts{files});
  }
  void survey(SurveyWanted wanted) override { caf::anon_send(actor_, std::move(wanted)); }
  void give_up(const std::string& host, const std::string& cause) override {
    caf::anon_send(actor_, HostGivenUp{.host = host, .cause = cause});
  }
  const std::string& own() const override { return spec_.own; }
  void offer(const FilesOffer& offer) override {
    caf::anon_send(actor_, FilesOffered{.offer = offer});
  }
  void bring(const std::string& host, const FilesAway& away) override {
    caf::anon_send(actor_, BringFiles{.host = host, .away = away});
  }
  void gather(const std::filesystem::path& unfinished, const std::vector<std::string>& hosts,
              const std::function<std::string()>& why_stop) override {
    caf::scoped_actor self{system_};
    PartHolders found;
    const auto lives = incarnations();  // of which these are the parts, or of later ones
    self->request(actor_, kRequestDeadline, PartHoldersWanted{.hosts = hosts})
        .receive([&](const PartHolders& holders) { found = holders; },
                 [&](const caf::error& error) {
                   throw Error(ErrorKind::internal,
                               "the parts of other hosts: " + system_.render(error));
                 });
    // A host that falls silent closes no connection.
    const auto is_there = [&](const std::string& host) {
      const auto now = incarnations();
      const auto then = lives.find(host), still = now.find(host);
      return then != lives.end() && still != now.end() && then->second == still->second;
    };
    gather_parts(system_, unfinished, found.holders, [&](const std::string& host) {
      return is_there(host) ? why_stop() : "the host is lost";
    });
  }
  void drop_parts() override { caf::anon_send(actor_, DropParts{}); }
  std::unique_ptr<Processes> workers(Processes& own) override {
    return std::make_unique<WorkersOfHosts>(spec_, own, registry_, actor_);
  }
  void describe(std::vector<HostStatus>& hosts) const override {
    const auto entries = registry_.entries();
    for (HostStatus& host : hosts) {
      if (host.host == spec_.own) {
        host.address = spec_.address;
        host.slots = own_slots_;
      }
      for (const HostRegistry::Entry& entry : entries) {
        if (entry.host.name != host.host) continue;
        host.address = entry.address;
        host.incarnation = entry.incarnation;
        host.slots = entry.host.slots;
        if (!entry.lost) host.clock = entry.clock;
      }
    }
  }
  std::uint64_t refused() const override { return links_.refused(); }
  void dismiss(const std::string& reason) override {
    caf::anon_send(actor_, HostsDismissed{.reason = reason});
  }

 private:
  /// When a host is taken away; 0: not known.
  double end_of(const std::string& host) const {
    if (host == spec_.own) return spec_.ends_s;
    for (const HostRegistry::Entry& entry : registry_.entries())
      if (entry.host.name == host) return entry.ends_s;
    return 0;
  }
  /// Of the hosts that are there.
  std::map<std::string, std::uint64_t> incarnations() const {
    std::map<std::string, std::uint64_t> found;
    for (const HostRegistry::Entry& entry : registry_.entries())
      if (!entry.lost) found[entry.host.name] = entry.incarnation;
    return found;
  }

  const HostsSpec spec_;
  HostRegistry registry_;
  OwnThreads own_threads_;
  ControlPlaneConfig config_{2};
  caf::actor_system system_{config_};
  SecureLinks links_{system_, Role::director, spec_.credentials};
  caf::actor actor_;
  int port_ = 0;
  std::atomic<int> own_slots_ = 0;
};

}  // namespace

std::shared_ptr<Hosts> Hosts::open(const HostsSpec& spec) {
  const StartDeadline deadline;
  return std::make_shared<OpenHosts>(spec);
}

}  // namespace troupe::actors
