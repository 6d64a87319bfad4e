#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "actors/protocol/protocol.h"

namespace troupe::actors {

/// The hosts of a simulated cluster: which are there, and what a configuration must not do to them.
class SimHosts {
 public:
  struct Life {
    Host host;
    bool is_there = true;
    bool is_leaving = false;  // the director was told, or is about to be, that it is to be left
    int number = 1;           // of its present life
    int told = 1;             // of the life that the director knows of
  };

  explicit SimHosts(const std::vector<Host>& hosts) {
    for (const Host& host : hosts) lives_[host.name] = {.host = host};
  }

  Life* find(const std::string& name) {
    const auto found = lives_.find(name);
    return found == lives_.end() ? nullptr : &found->second;
  }
  /// Whether a worker that is started there now really starts.
  bool starts_on(const std::string& name) {
    const Life* life = find(name);
    return lives_.empty() || (life && life->is_there && life->told == life->number);
  }
  /// The hosts that are there and stay, or those that are not there.
  std::vector<std::string> names(bool there) const {
    std::vector<std::string> those;
    for (const auto& [name, life] : lives_)
      if (life.is_there == there && !(there && life.is_leaving)) those.push_back(name);
    return those;
  }
  bool empty() const { return lives_.empty(); }
  auto begin() { return lives_.begin(); }
  auto end() { return lives_.end(); }

  /// What is wrong with the hosts of a configuration; empty if nothing is.
  static std::string fault_in(const Configuration& configuration,
                              const DirectorProtocol& protocol) {
    std::map<std::string, int> ranks;
    const RunSpec::Mesh& mesh = configuration.shape.mesh;
    for (int rank = 0; rank < configuration.num_ranks(); ++rank) {
      const std::string& name = configuration.members.at(rank).host;
      const HostTable::Entry* host = protocol.hosts().find(name);
      if (!host) return "a rank is on a host that nobody knows";
      if (host->state == HostState::lost) return "a rank is on a lost host";
      if (!host->is_up() && !protocol.stopping()) return "a rank is on a host that is to be left";
      if (++ranks[name] > host->host.slots) return "a host has more ranks than slots";
      RankPlace first = place_of(mesh, rank);
      first.shard = 0;
      if (configuration.members.at(rank_at(mesh, first)).host != name)
        return "the shards of a stage are on several hosts";
    }
    return "";
  }

 private:
  std::map<std::string, Life> lives_;
};

}  // namespace troupe::actors
