#pragma once

#include <array>
#include <caf/actor.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <map>
#include <vector>

#include "actors/messages/control_plane.h"
#include "actors/messages/interfaces.h"
#include "actors/protocol/protocol.h"
#include "actors/tuning/auto_layout.h"
#include "actors/tuning/auto_schedule.h"

namespace troupe::actors {

/// The director's request to plan a configuration. Sent only within the launcher.
struct PlanConfiguration {
  EnterConfiguration whole;  ///< the configuration with all members and moves
  std::vector<caf::actor> replicas;
  std::map<int, StageRef> leaving;  ///< members beyond the ranks
};

/// A step is committed. Sent only within the launcher.
struct StepDone {
  std::uint32_t configuration = 0;
  std::int64_t step = 0;
  double seconds = 0;
};

/// Whether the scheduler wants the times of actions. Sent only within the launcher.
struct MeasureActions {
  bool on = false;
};

/// Makes the plans of a configuration, for all its steps, and gives each replica the orders for its
/// stages: the shape, from which a stage derives its plan itself, and the digest that both must
/// agree on. Receives TracedActions and StepDone, and sends the director MeasureActions and
/// Tuner::Advice.
class SchedulerActor : public ControlActor {
 public:
  /// `memory_bytes` is the memory that all ranks together may take.
  SchedulerActor(caf::actor_config& config, RunSpec spec, std::int64_t memory_bytes,
                 caf::actor director);
  caf::behavior make_behavior() override;
  void on_exit() override;

 private:
  void plan(const PlanConfiguration& request);
  void advise(const std::optional<Tuner::Advice>& advice);
  void on_failure(const std::string& what) override;

  void tell_what_it_wants();
  std::array<Tuner*, 2> changes() { return {&auto_schedule_, &auto_layout_}; }

  const RunSpec spec_;
  AutoSchedule auto_schedule_;
  AutoLayout auto_layout_;
  bool measures_ = false;  ///< as last sent to the director
  caf::actor director_;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::PlanConfiguration)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::StepDone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::MeasureActions)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::Tuner::Advice)
