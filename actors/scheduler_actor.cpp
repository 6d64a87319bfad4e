#include "actors/scheduler_actor.h"

#include <utility>

#include "actors/assembly.h"
#include "actors/memory_plan.h"
#include "actors/replica_actor.h"

namespace troupe::actors {
namespace {

std::string row_of(const std::vector<schedules::Action>& actions) {
  std::string row;
  for (const auto& action : actions) {
    if (!row.empty()) row += ',';
    row += to_string(action);
  }
  return row;
}

}  // namespace

SchedulerActor::SchedulerActor(caf::actor_config& config, RunSpec spec, std::int64_t memory_bytes,
                               caf::actor director)
    : ControlActor(config),
      spec_(std::move(spec)),
      auto_(spec_,
            [this, memory_bytes](const Shape& now, const Shape& next) {
              return total_memory(spec_, now) + total_memory(spec_, next) <= memory_bytes;
            }),
      director_(std::move(director)) {}

caf::behavior SchedulerActor::make_behavior() {
  return {
      [this](const PlanEpoch& request) { plan(request); },
      [this](const TracedActions& actions) { advise(auto_.traced(actions)); },
      [this](const StepDone& step) { advise(auto_.stepped(step.epoch, step.step, step.seconds)); },
  };
}

void SchedulerActor::on_exit() {
  director_ = nullptr;
}

void SchedulerActor::advise(const std::optional<AutoSchedule::Advice>& advice) {
  if (advice) send(director_, *advice);
}

void SchedulerActor::plan(const PlanEpoch& request) {
  auto_.begin(request.epoch);
  const Assembly assembly = assemble(spec_, request.epoch.shape);
  for (std::size_t rank = 0; rank < request.stages.size(); ++rank) {
    const auto stage = rank % assembly.plan.actions.size();
    send(request.stages[rank], PlanOrder{.epoch = request.epoch.number,
                                         .actions = row_of(assembly.plan.actions[stage]),
                                         .eval_actions = row_of(assembly.eval_plan.actions[stage]),
                                         .digest = assembly.digest});
  }
}

void SchedulerActor::on_failure(const std::string& what) {
  send(director_, Event{DirectorFailed{.message = "the scheduler: " + what}});
}

}  // namespace troupe::actors
