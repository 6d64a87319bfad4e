#include "actors/director/configuration_orders.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "actors/messages/message_inspection.h"

namespace troupe::actors {
namespace {

/// The number of members in one message: an address has some hundred bytes, and a message at most
/// 64 KiB.
constexpr std::size_t kMembersOfMessage = 64;

/// The number of moves in one message, of some 20 bytes each.
constexpr std::size_t kMovesOfMessage = 2048;

/// The place of a rank among those of its replica: the number of its group of replicas.
std::size_t index_in_replica(const RunSpec::Mesh& mesh, int rank) {
  return static_cast<std::size_t>(rank % mesh.ranks_of_replica());
}

}  // namespace

ConfigurationOrders::ConfigurationOrders(const RunSpec& spec, EnterConfiguration whole)
    : spec_(spec),
      whole_(std::move(whole)),
      assembly_(assemble(spec_, whole_.configuration.shape)),
      moves_(static_cast<std::size_t>(whole_.configuration.members.size())),
      hosts_(host_shares(whole_.configuration)) {
  for (const StateMove& move : std::exchange(whole_.start.state.moves, {})) {
    moves_[static_cast<std::size_t>(move.from)].push_back(move);
    if (move.to != move.from) moves_[static_cast<std::size_t>(move.to)].push_back(move);
  }
  copied_ = std::exchange(whole_.start.state.copied, {});
  if (copies_state(spec_, whole_.configuration.shape)) ring_ = copy_ring(whole_.configuration);
  if (!shares_replicas()) return;
  const ClusterShape& shape = whole_.configuration.shape;
  for (int first = 0; first < shape.mesh.ranks_of_replica(); ++first) {
    std::set<int> replicas;
    for (int rank = first; rank < shape.num_ranks(); rank += shape.mesh.ranks_of_replica())
      replicas.insert(rank);
    replicas_.push_back(tell_of(replicas));
  }
}

/// Whether replicas of a stage receive the same Peers messages about each other. They all know each
/// other; with many of them, messages for each one would be work for every pair.
bool ConfigurationOrders::shares_replicas() const {
  const RunSpec::Mesh& mesh = whole_.configuration.shape.mesh;
  return mesh.is_even() && mesh.dp > static_cast<int>(kMembersOfMessage);
}

/// The members that a member must know, without those in messages shared by its replicas.
std::set<int> ConfigurationOrders::known_to(int member) const {
  std::set<int> known;
  const ClusterShape& shape = whole_.configuration.shape;
  const bool is_rank = member < shape.num_ranks();
  if (is_rank) {
    RankAssembly part = part_of_run(assembly_, spec_, shape, member, ring_);
    if (shares_replicas()) part.replica_ranks.clear();
    known = actors::peers_of(part);
  }
  for (const StateMove& move : moves_[static_cast<std::size_t>(member)])
    known.insert({move.from, move.to});
  if (is_rank && shares_replicas())
    std::erase_if(known, [&](int rank) {
      return rank < shape.num_ranks() &&
             index_in_replica(shape.mesh, rank) == index_in_replica(shape.mesh, member);
    });
  else
    known.insert(member);
  return known;
}

std::vector<caf::message> ConfigurationOrders::tell_of(const std::set<int>& ranks) const {
  std::vector<caf::message> messages;
  Peers peers{.configuration = whole_.configuration.number, .members = {}};
  for (const int rank : ranks) {
    peers.members.emplace(rank, whole_.configuration.members.at(rank));
    if (peers.members.size() < kMembersOfMessage && rank != *ranks.rbegin()) continue;
    messages.push_back(caf::make_message(peers));
    peers.members.clear();
  }
  return messages;
}

std::vector<caf::message> ConfigurationOrders::peers_of(int member) const {
  std::vector<caf::message> messages = tell_of(known_to(member));
  const ClusterShape& shape = whole_.configuration.shape;
  if (member >= shape.num_ranks() || !shares_replicas()) return messages;
  const auto& shared = replicas_[index_in_replica(shape.mesh, member)];
  messages.insert(messages.end(), shared.begin(), shared.end());
  return messages;
}

std::vector<Moves> ConfigurationOrders::moves_of(int member) const {
  std::vector<Moves> messages;
  std::span<const StateMove> rest = moves_[static_cast<std::size_t>(member)];
  while (!rest.empty()) {
    const auto some = rest.first(std::min(rest.size(), kMovesOfMessage));
    messages.push_back(
        {.configuration = whole_.configuration.number, .moves = {some.begin(), some.end()}});
    rest = rest.subspan(some.size());
  }
  return messages;
}

void ConfigurationOrders::send(ControlActor& from, const StageRef& to, int member) const {
  // A message that is made already has no type that the compiler could compare.
  const auto untyped = caf::actor_cast<caf::actor>(to);
  for (const caf::message& peers : peers_of(member)) from.send(untyped, peers);
  for (const Moves& moves : moves_of(member)) from.send(to, moves);
  from.send(to, begin_of(member));
}

BeginConfiguration ConfigurationOrders::begin_of(int member) const {
  const ClusterShape& shape = whole_.configuration.shape;
  BeginConfiguration order{.configuration = {.run = whole_.configuration.run,
                                             .number = whole_.configuration.number,
                                             .shape = shape},
                           .start = whole_.start};
  if (member >= shape.num_ranks()) return order;  // it only gives its state away and has no plan
  for (const int source : {ring_.source_of(shape, member), member})
    if (std::ranges::binary_search(copied_, source)) order.start.state.copied.push_back(source);
  order.start.ring = ring_.for_rank(shape, member);
  order.start.digest = assembly_.digest;
  order.start.host = hosts_[static_cast<std::size_t>(member)];
  return order;
}

}  // namespace troupe::actors
