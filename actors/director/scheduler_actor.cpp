#include "actors/director/scheduler_actor.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "actors/director/configuration_orders.h"
#include "actors/director/replica_actor.h"
#include "actors/topology/memory/memory_plan.h"

namespace troupe::actors {
namespace {

Tuner::Fits fits_into(const RunSpec& spec, std::int64_t memory_bytes) {
  return [spec, memory_bytes](const ClusterShape& now, const ClusterShape& next) {
    return total_memory_of_change(spec, now, next) <= memory_bytes;
  };
}

}  // namespace

SchedulerActor::SchedulerActor(caf::actor_config& config, RunSpec spec, std::int64_t memory_bytes,
                               caf::actor director)
    : ControlActor(config),
      spec_(std::move(spec)),
      auto_schedule_(spec_, fits_into(spec_, memory_bytes)),
      auto_layout_(spec_, fits_into(spec_, memory_bytes)),
      director_(std::move(director)) {}

caf::behavior SchedulerActor::make_behavior() {
  return {
      [this](const PlanConfiguration& request) { plan(request); },
      [this](const TracedActions& actions) {
        for (Tuner* change : changes()) advise(change->traced(actions));
        tell_what_it_wants();
      },
      [this](const StepDone& step) {
        advise(auto_schedule_.stepped(step.configuration, step.step, step.seconds));
        auto_layout_.rest(auto_schedule_.measures());
        advise(auto_layout_.stepped(step.configuration, step.step, step.seconds));
        tell_what_it_wants();
      },
  };
}

void SchedulerActor::on_exit() {
  director_ = nullptr;
}

void SchedulerActor::advise(const std::optional<Tuner::Advice>& advice) {
  if (advice) send(director_, *advice);
}

void SchedulerActor::tell_what_it_wants() {
  const bool measures = std::ranges::any_of(changes(), &Tuner::measures);
  if (std::exchange(measures_, measures) != measures)
    send(director_, MeasureActions{.on = measures});
}

void SchedulerActor::plan(const PlanConfiguration& request) {
  auto_schedule_.begin(request.whole.configuration);
  auto_layout_.rest(auto_schedule_.measures());
  auto_layout_.begin(request.whole.configuration);
  tell_what_it_wants();
  const auto orders = std::make_shared<const ConfigurationOrders>(spec_, request.whole);
  for (const auto& replica : request.replicas) send(replica, orders);
  for (const auto& [place, worker] : request.leaving) orders->send(*this, worker, place);
}

void SchedulerActor::on_failure(const std::string& what) {
  send(director_, Event{DirectorFailed{.message = "the scheduler: " + what}});
}

}  // namespace troupe::actors
