#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/protocol/protocol_effects.h"
#include "actors/protocol/protocol_events.h"

namespace troupe::actors {

/// A worker as far as the protocol can tell: what state it holds, and what it is about to answer.
struct SimWorker {
  std::uint64_t incarnation = 0;
  int id = 0;
  std::string host;
  bool joined = false;
  bool known = false;                  // the director has heard of it
  int node = 0;                        // number of its present data plane, used as its address
  std::map<std::uint64_t, int> peers;  // connected peers: incarnation, and number of its data plane
  bool spoilt = false;                 // what a dead peer has left behind blocks its data plane
  bool quiet = true;                   // it sends nothing that its death could interrupt
  std::optional<Configuration> configuration,
      before;                // the configuration that it has begun, and the one before
  bool reached = false;      // by all, as far as it knows
  std::uint32_t newest = 0;  // configuration that it knows of
  std::int64_t step = -1, step_before = -1;
  bool previous = false;
  bool is_ahead = false;              // its last update was made before the step was committed
  std::optional<std::int64_t> voted;  // the step that it waits to be committed
  int lacks = 0;                      // things that it lacks to vote
  // What it does once it knows that its weights stand, a copy has come, and it has voted.
  std::function<void(SimWorker&)> goes_on, takes_copy, takes_next;
  std::vector<CopyRecord> copies, copies_before;

  /// Whether it obeys orders of a configuration.
  bool takes_part_in(std::uint32_t number) const {
    return configuration && configuration->number == number && newest == number;
  }
  void update_ahead(std::int64_t of) {
    voted.reset();
    step = of;
    previous = is_ahead = true;
  }
  void commit(std::int64_t of) {
    if (std::exchange(is_ahead, false)) {
      if (const auto go_on = std::exchange(goes_on, {})) go_on(*this);
      return;
    }
    voted.reset();
    step = of;
    previous = true;
  }

  /// Forgets a configuration that not all ranks have reached. The answer to the order.
  Halted halt(const Halt& order) {
    if (before && before->number == order.kept) {
      configuration = before;
      step = step_before;
      copies = copies_before;
    }
    before.reset();
    if (std::exchange(is_ahead, false)) {
      --step;
      previous = false;
    }
    voted.reset();
    goes_on = takes_copy = takes_next = {};
    lacks = 0;
    quiet = true;
    reached = true;
    newest = order.configuration;
    if (order.reconnect) {
      ++node;
      peers.clear();
      spoilt = false;
    }
    Halted halted{.configuration = order.configuration,
                  .incarnation = incarnation,
                  .address = std::to_string(node),
                  .inventory = {}};
    if (configuration && configuration->number == order.kept)
      halted.inventory = {.step = step, .has_previous = previous, .copies = copies};
    else
      configuration.reset();
    return halted;
  }

  /// Connects to the configuration's members and takes the state of the step; keeps what it had
  /// before.
  void begin(const Configuration& next, std::int64_t first_step) {
    before = std::exchange(configuration, next);
    reached = false;
    newest = next.number;
    step_before = step;
    copies_before = std::exchange(copies, {});
    step = first_step;
    previous = false;
    if (before && step_before == step + 1) step_before = step;  // stepped back
    // A stage that stays is one and the same: going back overwrites its state.
    if (before && before->shape == next.shape &&
        before->rank_of(incarnation) == next.rank_of(incarnation))
      step_before = step;
    for (const auto& [place, member] : next.members)
      if (member.incarnation != incarnation) peers[member.incarnation] = std::stoi(member.address);
    quiet = next.rank_of(incarnation) >= next.num_ranks();  // it has given its state already
  }

  /// A state has come, which the simulation does not send in messages. The newest two of each rank
  /// are held.
  void receive_copy(const CopyRecord& copy) {
    copies.push_back(copy);
    const auto is_same = [&](const CopyRecord& other) { return other.rank == copy.rank; };
    if (std::ranges::count_if(copies, is_same) > 2)
      copies.erase(std::ranges::find_if(copies, is_same));
  }
};

}  // namespace troupe::actors
