#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/protocol/protocol.h"

namespace troupe::actors {

/// A copy of the run that ends when it loses a worker.
inline RunSpec that_stops(RunSpec spec) {
  spec.recovery.on_failure = RunSpec::OnFailure::stop;
  return spec;
}

/// Drives a DirectorProtocol as the actors would, one event at a time.
struct Driver {
  explicit Driver(RunSpec run, std::int64_t first = 0, std::int64_t saved = -1)
      : spec(std::move(run)),
        protocol(spec, {.first_step = first, .saved_step = saved, .seed = 7}) {}

  std::vector<Effect> on(const Event& event) {
    auto effects = protocol.on(event);
    for (const Effect& effect : effects) {
      if (const auto* spawn = std::get_if<SpawnWorker>(&effect))
        (spawn->rank < 0 ? spares[spawn->id] : workers[spawn->rank]) = spawn->incarnation;
      if (const auto* order = std::get_if<OrderWarmUp>(&effect))
        for (std::size_t rank = 0; rank < order->assignment.size(); ++rank)
          warming.push_back({order->order, order->assignment[rank], static_cast<int>(rank)});
    }
    return effects;
  }
  /// Answers for every member that was asked to get ready for a change.
  void warm() {
    for (const Warm& answer : std::exchange(warming, {})) on(answer);
  }
  std::uint32_t configuration() const { return protocol.configuration().number; }
  /// Lets every worker join and become ready. Returns the effects of the last answer.
  std::vector<Effect> start() {
    on(Started{});
    for (int rank = 0; rank < spec.num_ranks(); ++rank) on(joined(rank));
    return ready();
  }
  MemberJoined joined(int rank) {
    return {.member = {.id = rank, .incarnation = workers.at(rank), .pid = 1000 + rank}};
  }
  std::vector<Effect> ready() {
    return by_replicas([this](int replica) {
      return Event{ReplicaReady{.configuration = configuration(), .replica = replica}};
    });
  }
  template <typename Make>
  std::vector<Effect> by_replicas(Make&& make) {
    std::vector<Effect> last;
    for (int replica = 0; replica < protocol.configuration().shape.mesh.dp; ++replica)
      last = on(make(replica));
    return last;
  }
  std::vector<Effect> prepared(std::int64_t step, double loss_sum = 128, double squares = 4) {
    return by_replicas([&](int replica) {
      return Event{ReplicaPrepared{.configuration = configuration(),
                                   .step = step,
                                   .replica = replica,
                                   .loss_sum = loss_sum,
                                   .squared_norm = squares}};
    });
  }
  std::vector<Effect> saved(std::int64_t step, const std::string& error = "") {
    return by_replicas([&](int r) {
      return Event{ReplicaSaved{
          .configuration = configuration(), .step = step, .replica = r, .error = error}};
    });
  }
  /// The event that the worker which was spawned last for the rank has ended.
  WorkerExited exited(int rank, bool clean = true) {
    return {.incarnation = workers.at(rank),
            .cause = clean ? "exit code 0" : "signal 9 (SIGKILL)",
            .now_s = 1};
  }
  Halted halted(int rank, std::uint32_t next, StateInventory inventory) {
    return {.configuration = next,
            .incarnation = workers.at(rank),
            .address = "",
            .inventory = std::move(inventory)};
  }

  RunSpec spec;
  DirectorProtocol protocol;
  std::vector<Warm> warming;
  std::map<int, std::uint64_t> workers, spares;  // incarnations, by the rank they were meant for
};

template <typename T>
const T* find(const std::vector<Effect>& effects) {
  for (const Effect& effect : effects)
    if (const T* found = std::get_if<T>(&effect)) return found;
  return nullptr;
}

/// Ends every worker and returns the outcome of the run.
inline Outcome end_of(Driver& driver) {
  for (const auto& [rank, incarnation] : std::map(driver.workers))
    if (const auto effects = driver.on(driver.exited(rank)); const End* end = find<End>(effects))
      return end->outcome;
  return {.exit_code = -1, .reason = "the protocol did not end"};
}

}  // namespace troupe::actors
