#pragma once

#include <caf/actor.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <vector>

#include "actors/control_plane.h"
#include "actors/protocol.h"

namespace troupe::actors {

/// The director's request to plan an epoch. Local to the launcher.
struct PlanEpoch {
  Epoch epoch;
  std::vector<caf::actor> stages;  ///< by rank
};

/// Makes the epoch's plans and sends every stage its row, for all steps until the next epoch, ahead
/// of the first one.
class SchedulerActor : public ControlActor {
 public:
  SchedulerActor(caf::actor_config& config, RunSpec spec, caf::actor director);
  caf::behavior make_behavior() override;
  void on_exit() override;

 private:
  void plan(const PlanEpoch& request);
  void on_failure(const std::string& what) override;
  void on_down(const caf::actor_addr&) override {}

  const RunSpec spec_;
  caf::actor director_;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::PlanEpoch)
