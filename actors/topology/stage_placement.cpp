#include "actors/topology/stage_placement.h"

#include <cstddef>
#include <limits>
#include <utility>

#include "actors/topology/configuration.h"

namespace troupe::actors {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

/// Ranks of one stage that lie on one host.
struct Block {
  int stage = 0;
  int size = 1;
  std::size_t host = kNone;
};

class StagePlacer {
 public:
  StagePlacer(const RunSpec::Mesh& mesh, std::span<const Host> hosts, const HostRules& rules,
              Together together)
      : hosts_(hosts),
        of_stage_(static_cast<std::size_t>(mesh.pp), std::vector<int>(hosts.size())),
        allowed_(static_cast<std::size_t>(mesh.pp)) {
    for (const Host& host : hosts) {
      free_.push_back(host.slots);
      for (int stage = 0; stage < mesh.pp; ++stage)
        allowed_[static_cast<std::size_t>(stage)].push_back(rules.allows(mesh, stage, host.name));
    }
    for (int rank = 0; rank < mesh.num_ranks();) {
      const int stage = place_of(mesh, rank).stage;
      blocks_.push_back(
          {.stage = stage, .size = together == Together::shards ? mesh.width(stage).tp : 1});
      rank += blocks_.back().size;
    }
  }

  std::optional<std::vector<int>> place() {
    for (Block& block : blocks_) {
      std::vector<bool> left(hosts_.size());
      if (!settle(block, left)) return std::nullopt;
      near_ = block.host;
    }
    std::vector<int> host_of_rank;
    for (const Block& block : blocks_)
      host_of_rank.insert(host_of_rank.end(), static_cast<std::size_t>(block.size),
                          static_cast<int>(block.host));
    return host_of_rank;
  }

 private:
  /// Finds a host for a block, or another one. `left`: hosts from which a block has been asked away
  /// already.
  bool settle(Block& block, std::vector<bool>& left) {
    if (const std::size_t host = best_of(block); host != kNone) return put(block, host);
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      if (left[host] || !may_lie(block, host)) continue;
      left[host] = true;
      for (Block& other : blocks_)
        if (other.host == host && free_[host] + other.size >= block.size && settle(other, left))
          return put(block, host);
    }
    return false;
  }
  bool may_lie(const Block& block, std::size_t host) const {
    return host != block.host && allowed_[static_cast<std::size_t>(block.stage)][host];
  }
  std::size_t best_of(const Block& block) const {
    const std::vector<int>& replicas = of_stage_[static_cast<std::size_t>(block.stage)];
    std::size_t best = kNone;
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      const std::size_t host = (near_ + i) % hosts_.size();
      if (!may_lie(block, host) || free_[host] < block.size) continue;
      if (best == kNone || replicas[host] < replicas[best]) best = host;
    }
    return best;
  }
  bool put(Block& block, std::size_t host) {
    std::vector<int>& replicas = of_stage_[static_cast<std::size_t>(block.stage)];
    if (const std::size_t before = std::exchange(block.host, host); before != kNone) {
      free_[before] += block.size;
      --replicas[before];
    }
    free_[host] -= block.size;
    ++replicas[host];
    return true;
  }

  std::span<const Host> hosts_;
  std::vector<std::vector<int>> of_stage_;  // by stage and host: its blocks there
  std::vector<std::vector<bool>> allowed_;  // by stage and host
  std::vector<int> free_;                   // slots, by host
  std::vector<Block> blocks_;               // in the order of ranks
  std::size_t near_ = 0;                    // host of the block before
};

}  // namespace

std::optional<std::vector<int>> place_stages(const RunSpec::Mesh& mesh, std::span<const Host> hosts,
                                             const HostRules& rules, Together together) {
  return StagePlacer(mesh, hosts, rules, together).place();
}

}  // namespace troupe::actors
