#include "actors/replica_actor.h"

#include <algorithm>
#include <utility>

#include "actors/monitors/step_report.h"
#include "actors/tally.h"

namespace troupe::actors {

ReplicaActor::ReplicaActor(caf::actor_config& config, int replica, std::vector<StageHandle> stages,
                           Parameters parameters, caf::actor director)
    : ControlActor(config),
      replica_(replica),
      stages_(std::move(stages)),
      parameters_(std::move(parameters)),
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
      [this](const Ready& answer) { add(answer); },
      [this](const Prepared& answer) { add(answer); },
      [this](const Saved& answer) { add(answer); },
      [this](const Evaluated& answer) { add(answer); },
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

void ReplicaActor::add(const Ready& answer) {
  if (!ready_.add(stage_of(answer.rank), answer)) return;
  ReplicaReady all{.epoch = answer.epoch, .replica = replica_};
  for (const Ready& ready : ready_.answers())
    all.move_s = std::max(all.move_s, to_double(ready.move_s));
  send(director_, Event{all});
}

void ReplicaActor::add(const Prepared& answer) {
  if (!prepared_.add(stage_of(answer.rank), answer)) return;
  const auto& votes = prepared_.answers();
  send(director_,
       ReplicaVote{.sum = tally(replica_, votes, ready_.answers(), *parameters_),
                   .measured = std::make_shared<StepReport::Measured>(measured(replica_, votes))});
}

void ReplicaActor::add(const Saved& answer) {
  if (!saved_.add(stage_of(answer.rank), answer)) return;
  ReplicaSaved all{.epoch = answer.epoch, .step = answer.step, .replica = replica_, .error = ""};
  for (const Saved& saved : saved_.answers())
    if (all.error.empty()) all.error = saved.error;
  send(director_, Event{all});
}

void ReplicaActor::add(const Evaluated& answer) {
  if (!evaluated_.add(stage_of(answer.rank), answer)) return;
  ReplicaEvaluated all{.epoch = answer.epoch, .step = answer.step, .replica = replica_};
  for (const Evaluated& evaluated : evaluated_.answers())
    all.loss_sum += to_double(evaluated.loss_sum);
  send(director_, Event{all});
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
