#include "actors/epoch_orders.h"

#include <algorithm>
#include <string>
#include <utility>

#include "actors/epoch_parts.h"

namespace troupe::actors {
namespace {

/// Members of one message: an address has some hundred bytes, and a message at most 64 KiB.
constexpr std::size_t kMembersOfMessage = 64;

std::string row_of(const std::vector<schedules::Action>& actions) {
  std::string row;
  for (const auto& action : actions) {
    if (!row.empty()) row += ',';
    row += to_string(action);
  }
  return row;
}

}  // namespace

EpochOrders::EpochOrders(const RunSpec& spec, BeginEpoch whole)
    : spec_(spec),
      whole_(std::move(whole)),
      assembly_(assemble(spec_, whole_.epoch.shape)),
      moves_(static_cast<std::size_t>(whole_.epoch.members.size())) {
  for (const StateMove& move : whole_.state.moves) {
    moves_[static_cast<std::size_t>(move.from)].push_back(move);
    if (move.to != move.from) moves_[static_cast<std::size_t>(move.to)].push_back(move);
  }
}

std::set<int> EpochOrders::known_to(int member) const {
  std::set<int> known{member};
  const Shape& shape = whole_.epoch.shape;
  if (member < shape.num_ranks())
    known.merge(actors::peers_of(part_of_run(assembly_, spec_, shape, member)));
  for (const StateMove& move : moves_[static_cast<std::size_t>(member)])
    known.insert({move.from, move.to});
  return known;
}

std::vector<Peers> EpochOrders::peers_of(int member) const {
  std::vector<Peers> messages;
  for (const int rank : known_to(member)) {
    if (messages.empty() || messages.back().members.size() == kMembersOfMessage)
      messages.push_back({.epoch = whole_.epoch.number, .members = {}});
    messages.back().members[rank] = whole_.epoch.members.at(rank);
  }
  return messages;
}

BeginEpoch EpochOrders::begin_of(int member) const {
  const Shape& shape = whole_.epoch.shape;
  BeginEpoch order{
      .epoch = {.run = whole_.epoch.run, .number = whole_.epoch.number, .shape = shape},
      .state = {.step = whole_.state.step, .from_memory = whole_.state.from_memory},
      .checkpoint = whole_.checkpoint,
      .weights_only = whole_.weights_only,
      .sample_origin = whole_.sample_origin};
  order.state.moves = moves_[static_cast<std::size_t>(member)];
  if (member >= shape.num_ranks()) return order;  // it gives its state away and has no plan
  for (const int copied : whole_.state.copied)
    if (copied == member || copied == neighbour_of(shape, member, -1))
      order.state.copied.push_back(copied);
  const auto stage = static_cast<std::size_t>(place_of(shape, member).stage);
  order.actions = row_of(assembly_.plan.actions[stage]);
  order.eval_actions = row_of(assembly_.eval_plan.actions[stage]);
  order.digest = assembly_.digest;
  return order;
}

}  // namespace troupe::actors
