#include "actors/protocol/hosts/host_placement.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

namespace troupe::actors {
namespace {

/// Consecutive ranks that lie on one host: the shards of a stage.
struct Block {
  int replica = 0;
  std::string wish;  // where those lie that are left, or the last ones lay; empty: anywhere
  int left = 0;      // how many are
  std::string host;  // where it goes; empty: nowhere yet
};

/// What a host has left.
struct Room {
  const HostTable::Entry* host = nullptr;
  int blocks = 0;  // that it has room for
  int idle = 0;    // workers that wait for work
};

class Placer {
 public:
  Placer(const TargetShape& target, const Configuration& kept, const Roster& roster,
         std::span<const HostTable::Entry> available, int block_size)
      : target_(target), kept_(kept), roster_(roster), size_(block_size) {
    for (const HostTable::Entry& entry : available) {
      names_.insert(entry.host.name);
      rooms_.push_back({.host = &entry, .blocks = entry.host.slots / size_});
    }
    for (const std::uint64_t worker : idle_workers(kept, roster))
      if (Room* room = room_on(roster.find(worker)->host)) ++room->idle;
    const RunSpec::Mesh& mesh = target.shape.mesh;
    const auto blocks = static_cast<std::size_t>(mesh.num_ranks() / size_);
    blocks_.resize(blocks);
    for (std::size_t i = 0; i < blocks; ++i)
      blocks_[i].replica = static_cast<int>(i) * size_ / mesh.ranks_of_replica();
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
    std::ranges::stable_sort(order, {},
                             [&](const Block* block) { return lacking[block->replica]; });
    for (Block* block : order) {
      claim(*block, best_room(replaces));
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
    const int first = rank_at(mesh, {.replica = replica}) / size_;
    if (moves_up(mesh, kept_, there)) return wish_in_order(there, first);
    for (const auto& [place, incarnation] : there)
      if (place.stage < mesh.pp && place.shard < mesh.tp) {
        Block& block = blocks_[block_at({replica, place.stage, place.shard})];
        const std::string& host = roster_.find(incarnation)->host;
        if (block.left > 0 && block.wish != host) continue;
        block.wish = host;
        ++block.left;
      }
    const RunSpec::Mesh& before = kept_.shape.mesh;
    for (int i = 0; old < before.dp && i < before.ranks_of_replica(); ++i) {
      const int rank = rank_at(before, {.replica = old}) + i;
      const RankPlace place = place_of(before, rank);
      if (place.stage >= mesh.pp || place.shard >= mesh.tp) continue;
      Block& block = blocks_[block_at({replica, place.stage, place.shard})];
      const std::string& host = kept_.members.at(rank).host;
      if (block.wish.empty() && names_.contains(host)) block.wish = host;
    }
  }
  /// The same if those who are left move up: as many of a host as make a block stay together.
  void wish_in_order(const std::vector<PlacedWorker>& there, int first) {
    std::vector<Block> groups;
    for (const auto& [place, incarnation] : there) {
      const std::string& host = roster_.find(incarnation)->host;
      auto open = std::ranges::find_if(
          groups, [&](const Block& group) { return group.wish == host && group.left < size_; });
      if (open == groups.end()) open = groups.insert(open, {.wish = host});
      ++open->left;
    }
    const auto most = static_cast<std::size_t>(target_.shape.mesh.ranks_of_replica() / size_);
    while (groups.size() > most) groups.erase(std::ranges::min_element(groups, {}, &Block::left));
    for (std::size_t i = 0; i < groups.size(); ++i) {
      Block& block = blocks_[static_cast<std::size_t>(first) + i];
      block.wish = groups[i].wish;
      block.left = groups[i].left;
    }
  }
  std::size_t block_at(const RankPlace& place) const {
    return static_cast<std::size_t>(rank_at(target_.shape.mesh, place) / size_);
  }

  void claim(Block& block, Room* room) {
    if (!room || room->blocks == 0) return;
    --room->blocks;
    room->idle = std::max(0, room->idle - (size_ - block.left));
    block.host = room->host->host.name;
  }

  Room* best_room(bool replaces) {
    const auto rank_of_room = [this](const Room& room) {
      return std::tuple(room.idle >= size_, room.host->state == HostState::spare,
                        room.host->host.name == last_, room.blocks);
    };
    Room* best = nullptr;
    for (Room& room : rooms_) {
      if (room.blocks == 0 || (!replaces && room.host->state != HostState::spare)) continue;
      if (!best || rank_of_room(room) > rank_of_room(*best)) best = &room;
    }
    return best;
  }

  Placement result(bool replaces) const {
    Placement placement;
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      for (int shard = 0; shard < size_; ++shard) {
        const Block& block = blocks_[i];
        // Without replacements, what ended of a stage that is not whole is missing.
        const bool is_missing = !replaces && block.left > 0 && shard >= block.left;
        placement.hosts.push_back(block.host);
        if (block.host.empty() || is_missing)
          placement.homeless.insert(static_cast<int>(i) * size_ + shard);
      }
    return placement;
  }

  const TargetShape& target_;
  const Configuration& kept_;
  const Roster& roster_;
  const int size_;
  std::set<std::string> names_;
  std::vector<Room> rooms_;
  std::vector<Block> blocks_;
  std::string last_;  // host of the block that was placed last
};

}  // namespace

Placement place_target(const TargetShape& target, const Configuration& kept, const Roster& roster,
                       std::span<const HostTable::Entry> available, const PlacementRules& rules) {
  const int tp = target.shape.mesh.tp;
  Placement whole = Placer(target, kept, roster, available, tp).place(rules.replaces);
  if (whole.homeless.empty() || !rules.tp_across_hosts || tp == 1) return whole;
  Placement across = Placer(target, kept, roster, available, 1).place(rules.replaces);
  return across.homeless.size() < whole.homeless.size() ? across : whole;
}

}  // namespace troupe::actors
