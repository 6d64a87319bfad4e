#include "actors/protocol/hosts/host_placement.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

/// Consecutive ranks that lie on one host: the shards of a stage.
struct Block {
  int replica = 0;
  int stage = 0;
  int first = 0;     // its first rank
  int size = 1;      // how many ranks it has
  std::string wish;  // where those lie that are left, or the last ones lay; empty: anywhere
  int left = 0;      // how many are
  std::string host;  // where it goes; empty: nowhere yet
};

/// What a host has left.
struct Room {
  const HostTable::Entry* host = nullptr;
  int slots = 0;  // that are free
  int idle = 0;   // workers that wait for work
};

class Placer {
 public:
  Placer(const TargetShape& target, const Configuration& kept, const Roster& roster,
         std::span<const HostTable::Entry> available, const HostRules& rules, bool divides_stages)
      : target_(target), kept_(kept), roster_(roster), rules_(rules) {
    for (const HostTable::Entry& entry : available) {
      names_.insert(entry.host.name);
      rooms_.push_back({.host = &entry, .slots = entry.host.slots});
    }
    for (const std::uint64_t worker : idle_workers(kept, roster))
      if (Room* room = room_on(roster.find(worker)->host)) ++room->idle;
    const RunSpec::Mesh& mesh = target.shape.mesh;
    for (int rank = 0; rank < mesh.num_ranks();) {
      const RankPlace place = place_of(mesh, rank);
      const int size = divides_stages ? 1 : mesh.width(place.stage).tp;
      blocks_.push_back(
          {.replica = place.replica, .stage = place.stage, .first = rank, .size = size});
      rank += size;
    }
    for (int replica = 0; replica < mesh.dp && kept.number > 0; ++replica) wish(replica);
  }

  Placement place(bool replaces) {
    std::vector<Block*> order;
    for (Block& block : blocks_) order.push_back(&block);
    std::ranges::stable_sort(order, std::greater{}, &Block::left);
    for (Block* block : order)
      if (block->left > 0 || (replaces && !block->wish.empty()))
        claim(*block, room_on(block->wish));
    // Replicas that lack least come first: whole ones are worth more.
    std::map<int, int> lacking;
    for (const Block& block : blocks_) lacking[block.replica] += block.host.empty() ? 1 : 0;
    order.clear();
    for (Block& block : blocks_)
      if (block.host.empty() && (replaces || block.wish.empty())) order.push_back(&block);
    std::ranges::stable_sort(order, {}, [&](const Block* block) {
      return std::pair(lacking[block->replica], rooms_for(*block));
    });
    for (Block* block : order) {
      claim(*block, best_room(*block, replaces));
      last_ = block->host;
    }
    return result(replaces);
  }

 private:
  Room* room_on(const std::string& host) {
    const auto found =
        std::ranges::find(rooms_, host, [](const Room& room) { return room.host->host.name; });
    return found == rooms_.end() ? nullptr : &*found;
  }

  /// Notes where the blocks of a replica would best lie.
  void wish(int replica) {
    const RunSpec::Mesh& mesh = target_.shape.mesh;
    const int old = target_.continued(replica);
    const auto there = members_left(kept_, old, roster_, names_);
    if (moves_up(mesh, kept_, there)) return wish_in_order(there, replica);
    for (const auto& [place, incarnation] : there)
      if (has_place(mesh, {replica, place.stage, place.shard})) {
        Block& block = block_at({replica, place.stage, place.shard});
        const std::string& host = roster_.find(incarnation)->host;
        if (block.left > 0 && block.wish != host) continue;
        block.wish = host;
        ++block.left;
      }
    const RunSpec::Mesh& before = kept_.shape.mesh;
    for (int i = 0; old < before.dp && i < before.ranks_of_replica(old); ++i) {
      const int rank = first_rank_of(before, old) + i;
      const RankPlace place = place_of(before, rank);
      if (!has_place(mesh, {replica, place.stage, place.shard})) continue;
      Block& block = block_at({replica, place.stage, place.shard});
      const std::string& host = kept_.members.at(rank).host;
      if (block.wish.empty() && names_.contains(host)) block.wish = host;
    }
  }
  /// The same if those who are left move up: as many of a host as make a block stay together.
  void wish_in_order(const std::vector<PlacedWorker>& there, int replica) {
    std::vector<Block> groups;
    const int first = first_rank_of(target_.shape.mesh, replica);
    auto block = std::ranges::find(blocks_, first, &Block::first);
    const int size = block->size;
    for (const auto& [place, incarnation] : there) {
      const std::string& host = roster_.find(incarnation)->host;
      auto open = std::ranges::find_if(
          groups, [&](const Block& group) { return group.wish == host && group.left < size; });
      if (open == groups.end()) open = groups.insert(open, {.wish = host});
      ++open->left;
    }
    const auto most =
        static_cast<std::size_t>(std::ranges::count(blocks_, replica, &Block::replica));
    while (groups.size() > most) groups.erase(std::ranges::min_element(groups, {}, &Block::left));
    for (const Block& group : groups) {
      block->wish = group.wish;
      block->left = group.left;
      ++block;
    }
  }
  Block& block_at(const RankPlace& place) {
    const int rank = rank_at(target_.shape.mesh, place);
    return *(std::ranges::upper_bound(blocks_, rank, {}, &Block::first) - 1);
  }

  bool may_lie(const Block& block, const Room& room) const {
    return rules_.allows(target_.shape.mesh, block.stage, room.host->host.name);
  }
  std::ptrdiff_t rooms_for(const Block& block) const {
    return std::ranges::count_if(rooms_, [&](const Room& room) { return may_lie(block, room); });
  }

  void claim(Block& block, Room* room) {
    if (!room || room->slots < block.size || !may_lie(block, *room)) return;
    room->slots -= block.size;
    room->idle = std::max(0, room->idle - (block.size - block.left));
    block.host = room->host->host.name;
  }

  Room* best_room(const Block& block, bool replaces) {
    const int size = block.size;
    const auto rank_of_room = [&](const Room& room) {
      return std::tuple(room.idle >= size, room.host->state == HostState::spare,
                        room.host->host.name == last_, room.slots / size);
    };
    Room* best = nullptr;
    for (Room& room : rooms_) {
      if (room.slots < size || (!replaces && room.host->state != HostState::spare)) continue;
      if (!may_lie(block, room)) continue;
      if (!best || rank_of_room(room) > rank_of_room(*best)) best = &room;
    }
    return best;
  }

  Placement result(bool replaces) const {
    Placement placement;
    for (const Block& block : blocks_)
      for (int shard = 0; shard < block.size; ++shard) {
        // Without replacements, what ended of a stage that is not whole is missing.
        const bool is_missing = !replaces && block.left > 0 && shard >= block.left;
        placement.hosts.push_back(block.host);
        if (block.host.empty() || is_missing) placement.homeless.insert(block.first + shard);
      }
    return placement;
  }

  const TargetShape& target_;
  const Configuration& kept_;
  const Roster& roster_;
  const HostRules& rules_;
  std::set<std::string> names_;
  std::vector<Room> rooms_;
  std::vector<Block> blocks_;
  std::string last_;  // host of the block that was placed last
};

/// All ranks on these hosts, wherever they lay; none if there is no room.
std::optional<Placement> placed_anew(const RunSpec::Mesh& mesh,
                                     std::span<const HostTable::Entry> available,
                                     const HostRules& rules) {
  std::vector<Host> hosts;
  for (const HostTable::Entry& entry : available) hosts.push_back(entry.host);
  if (hosts.empty()) return std::nullopt;
  try {
    Placement placement;
    for (const int host : place_ranks(mesh, hosts, rules))
      placement.hosts.push_back(hosts[static_cast<std::size_t>(host)].name);
    return placement;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

Placement place_target(const TargetShape& target, const Configuration& kept, const Roster& roster,
                       std::span<const HostTable::Entry> available, const PlacementRules& rules) {
  const auto& [of_hosts, replaces] = rules;
  const RunSpec::Mesh& mesh = target.shape.mesh;
  Placement best = Placer(target, kept, roster, available, of_hosts, false).place(replaces);
  if (!best.homeless.empty() && of_hosts.tp_across_hosts && mesh.tp > 1) {
    Placement across = Placer(target, kept, roster, available, of_hosts, true).place(replaces);
    if (across.homeless.size() < best.homeless.size()) best = std::move(across);
  }
  if (!best.homeless.empty() && replaces && of_hosts.names_hosts(mesh))
    if (auto anew = placed_anew(mesh, available, of_hosts)) return *std::move(anew);
  return best;
}

}  // namespace troupe::actors
