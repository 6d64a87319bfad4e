#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "actors/protocol/protocol.h"
#include "actors/topology/hosts.h"
#include "tests/support/simulated_faults.h"
#include "tests/support/simulated_messages.h"

namespace troupe::actors {

/// The hosts of a simulated cluster: which are there, how they come and go, and what a
/// configuration must not do to them.
class SimHosts {
 public:
  struct Life {
    Host host;
    bool is_there = true;
    bool is_leaving = false;  // the director was told, or is about to be, that it is to be left
    int number = 1;           // of its present life
    int told = 1;             // of the life that the director knows of
  };
  /// What the cluster does for them.
  struct Cluster {
    SimMessages& messages;
    const DirectorProtocol& protocol;
    std::function<double()> now;
    std::function<void(const Event&)> feed;
    std::function<void(const std::string& host, bool is_told)> kill_workers;
    std::function<void(const std::vector<std::string>& hosts)> order_to_leave;
  };

  SimHosts(const RunSpec& spec, Cluster cluster)
      : rules_(host_rules(spec)), cluster_(std::move(cluster)) {
    for (const Host& host : spec.cluster.hosts) lives_[host.name] = {.host = host};
  }
  void strike(const HostFaults& faults) { faults_ = faults; }
  void join_all() {
    for (const auto& [name, life] : lives_) cluster_.feed(HostJoined{.host = life.host});
  }
  /// Another director hears of the hosts that are there.
  void rejoin_all() {
    states_.clear();
    grow_timer_ = 0;
    for (auto& [name, life] : lives_) {
      life.told = life.number;
      life.is_leaving = false;
      if (life.is_there) cluster_.feed(HostJoined{.host = life.host});
    }
  }
  /// Takes a host away, with the director on it, if another one is left. Returns which.
  std::string lose_directors_host() {
    const auto there = names(true);
    if (std::ssize(there) < 2) return "";
    lives_.at(there.front()).is_there = false;
    return there.front();
  }

  /// Loses a host, orders that it be left, or lets one join anew, as chance has it; lets the timer
  /// run out.
  void change() {
    if (grow_timer_ > 0 && pick(30) == 0) {
      const double rings = std::max(grow_at_, cluster_.now());
      cluster_.feed(GrowTimerRang{.timer = std::exchange(grow_timer_, 0), .now_s = rings});
    }
    if (lives_.empty() || cluster_.protocol.phase() >= DirectorProtocol::Phase::ending ||
        pick(40) != 0)
      return;
    const auto there = names(true), gone = names(false);
    const bool may_go = std::ssize(there) > (faults_.to_the_last ? 0 : 1);
    for (auto& [name, life] : lives_)
      if (life.is_there && life.is_leaving && pick(8) == 0) {
        const bool is_idle = cluster_.protocol.roster().on_host(name).empty();
        if (is_idle || faults_.losses-- > 0) lose(name);
        return;
      }
    const int what = pick(3);
    if (what == 0 && may_go && take_one(faults_.losses)) lose(one_of(there));
    if (what == 1 && may_go && take_one(faults_.drains)) drain(some_of(there));
    if (what == 2 && !gone.empty() && take_one(faults_.joins)) join(one_of(gone));
  }
  /// Whether a worker that is started there really starts.
  bool starts_on(const std::string& name) const {
    if (lives_.empty()) return true;
    const Life& life = lives_.at(name);
    return life.is_there && life.told == life.number;
  }
  /// Notes that the director refused to leave a host.
  void stays(const std::string& name) { lives_.at(name).is_leaving = false; }

  void note(const ReportHost& effect, SimResult& result) {
    const auto [told, is_first] = states_.emplace(effect.host, effect.state);
    const HostState before = std::exchange(told->second, effect.state);
    // One that joins anew without having had ranks is told of again.
    const bool may_join = effect.state == HostState::spare ||
                          (effect.state == HostState::joined &&
                           cluster_.protocol.configuration().number == 0);
    if (!is_first && before == effect.state && !may_join)
      result.broken = "a host's state was reported twice";
    result.hosts_lost += effect.state == HostState::lost ? 1 : 0;
    result.hosts_left += effect.state == HostState::draining ? 1 : 0;
  }
  void note(const StartGrowTimer& effect) {
    grow_timer_ = effect.timer;
    grow_at_ = cluster_.now() + effect.seconds;
  }
  /// What is wrong with where a worker is started; empty if nothing is.
  std::string fault_in(const SpawnWorker& effect) const {
    const auto& [messages, protocol, now, feed, kill, leave] = cluster_;
    const bool is_wrong =
        lives_.empty() ? !effect.host.empty() : !protocol.hosts().is_up(effect.host);
    return is_wrong && !protocol.stopping() ? "a worker is started where none may be" : "";
  }
  /// What is wrong with the hosts of a configuration; empty if nothing is.
  std::string fault_in(const Configuration& configuration) const {
    std::map<std::string, int> ranks;
    const RunSpec::Mesh& mesh = configuration.shape.mesh;
    for (int rank = 0; rank < configuration.num_ranks() && !lives_.empty(); ++rank) {
      const std::string& name = configuration.members.at(rank).host;
      const HostTable::Entry* host = cluster_.protocol.hosts().find(name);
      if (!host) return "a rank is on a host that nobody knows";
      if (host->state == HostState::lost) return "a rank is on a lost host";
      if (!host->is_up() && !cluster_.protocol.stopping())
        return "a rank is on a host that is to be left";
      if (++ranks[name] > host->host.slots) return "a host has more ranks than slots";
      RankPlace first = place_of(mesh, rank);
      if (!rules_.allows(mesh, first.stage, name)) return "a stage is on a host of others";
      first.shard = 0;
      if (configuration.members.at(rank_at(mesh, first)).host != name)
        return "the shards of a stage are on several hosts";
    }
    return "";
  }

 private:
  /// The line of what the director learns of hosts, which keeps its order.
  static constexpr int kLine = -10;

  int pick(int n) { return cluster_.messages.pick(n); }
  static bool take_one(int& left) { return left > 0 && left-- > 0; }
  const std::string& one_of(const std::vector<std::string>& names) {
    return names[static_cast<std::size_t>(pick(static_cast<int>(names.size())))];
  }
  /// One of them, or two if more than one need not stay.
  std::vector<std::string> some_of(std::vector<std::string> names) {
    const std::ptrdiff_t most = std::ssize(names) - (faults_.to_the_last ? 0 : 1);
    const std::ptrdiff_t count = most > 1 && pick(3) == 0 ? 2 : 1;
    std::ranges::rotate(names, names.begin() + pick(static_cast<int>(names.size())));
    names.resize(static_cast<std::size_t>(count));
    return names;
  }
  /// The hosts that are there and stay, or those that are not there.
  std::vector<std::string> names(bool there) const {
    std::vector<std::string> those;
    for (const auto& [name, life] : lives_)
      if (life.is_there == there && !(there && life.is_leaving)) those.push_back(name);
    return those;
  }
  /// Its workers are gone without a word, or some with one. The director hears of it later, maybe
  /// twice, or only when the host joins anew.
  void lose(const std::string& name) {
    lives_.at(name).is_there = lives_.at(name).is_leaving = false;
    cluster_.kill_workers(name, pick(3) == 0);
    if (pick(5) == 0) return join(name);
    for (int times = pick(8) == 0 ? 2 : 1; times > 0; --times)
      cluster_.messages.later(kLine, [this, name] {
        cluster_.feed(HostLost{.name = name, .cause = "silence", .now_s = cluster_.now()});
      });
  }
  void drain(const std::vector<std::string>& names) {
    for (const std::string& name : names) lives_.at(name).is_leaving = true;
    const bool is_ordered = pick(3) == 0;
    cluster_.messages.later(kLine, [this, names, is_ordered] {
      if (is_ordered) return cluster_.order_to_leave(names);
      cluster_.feed(HostsDraining{.names = names, .cause = "SIGTERM"});
    });
  }
  void join(const std::string& name) {
    Life& life = lives_.at(name);
    life.is_there = true;
    ++life.number;
    cluster_.messages.later(kLine, [this, &life, number = life.number] {
      life.told = number;
      cluster_.feed(HostJoined{.host = life.host, .now_s = cluster_.now()});
    });
  }

  const HostRules rules_;
  Cluster cluster_;
  HostFaults faults_;
  std::map<std::string, Life> lives_;
  std::map<std::string, HostState> states_;  // as they were reported last
  std::uint64_t grow_timer_ = 0;
  double grow_at_ = 0;
};

}  // namespace troupe::actors
