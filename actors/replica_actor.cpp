#include "actors/replica_actor.h"

#include <utility>

namespace troupe::actors {

ReplicaActor::ReplicaActor(caf::actor_config& config, int replica, std::vector<StageHandle> stages,
                           caf::actor director)
    : ControlActor(config),
      replica_(replica),
      stages_(std::move(stages)),
      director_(std::move(director)),
      ready_(stages_.size()),
      prepared_(stages_.size()),
      saved_(stages_.size()),
      evaluated_(stages_.size()) {}

caf::behavior ReplicaActor::make_behavior() {
  for (const auto& stage : stages_) monitor(stage.actor);
  return {
      [this](const Halt& order) { pass_on(order); },
      [this](const BeginEpoch& order) { pass_on(order); },
      [this](const RunStep& order) { pass_on(order); },
      [this](const Commit& order) { pass_on(order); },
      [this](const Save& order) { pass_on(order); },
      [this](const Evaluate& order) { pass_on(order); },
      [this](const Finish& order) { pass_on(order); },
      [this](const Ready& answer) { gather(ready_, answer); },
      [this](const Prepared& answer) { gather(prepared_, answer); },
      [this](const Saved& answer) { gather(saved_, answer); },
      [this](const Evaluated& answer) { gather(evaluated_, answer); },
      [this](const TracedActions& actions) { send(director_, actions); },
      [this](const Tapped& tapped) { send(director_, tapped); },
  };
}

void ReplicaActor::on_exit() {
  stages_.clear();
  director_ = nullptr;
}

template <typename Order>
void ReplicaActor::pass_on(const Order& order) {
  for (const auto& stage : stages_) send(stage.actor, order);
}

template <typename Answer>
void ReplicaActor::gather(Gathering<Answer>& gathering, const Answer& answer) {
  const auto stage = static_cast<std::size_t>(answer.rank) % stages_.size();
  if (auto all = gathering.add(stage, answer))
    send(director_, OfReplica<Answer>{.replica = replica_, .answers = std::move(*all)});
}

void ReplicaActor::on_failure(const std::string& what) {
  send(director_,
       Event{DirectorFailed{.message = "replica " + std::to_string(replica_) + ": " + what}});
}

void ReplicaActor::on_down(const caf::actor_addr& who) {
  for (const StageHandle& stage : stages_)
    if (stage.actor.address() == who)
      send(director_, Event{WorkerFailed{.incarnation = stage.incarnation,
                                         .message = "its connection to the launcher is gone",
                                         .symptom = true}});
}

}  // namespace troupe::actors
