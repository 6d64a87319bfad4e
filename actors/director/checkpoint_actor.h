#pragma once

#include <caf/actor.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <cstdint>
#include <stop_token>
#include <string>

#include "actors/messages/control_plane.h"
#include "stages/checkpoint.h"

namespace troupe::actors {

/// No rank writes any more in step-N.tmp. Local to the launcher.
struct FinishCheckpoint {
  std::string dir;  ///< of the run's checkpoints
  stages::CheckpointInfo info;
  int num_parts = 0;
  int keep = 1;
  std::string error;     ///< why a rank could not write its part; empty: all could
  std::stop_token stop;  ///< the run ends at once
};

/// The answer. Local to the launcher.
struct CheckpointFinished {
  std::int64_t step = 0;
  std::string error;       ///< why it is not complete; empty: it is
  std::string not_pruned;  ///< why older ones could not go; empty: they could
};

/// Completes checkpoints and removes old ones, or what there is of one that could not be written:
/// an actor with a thread of its own, so that no disk keeps the director from its votes. Answers
/// each FinishCheckpoint when all that is done.
class CheckpointActor : public ControlActor {
 public:
  CheckpointActor(caf::actor_config& config, caf::actor director);
  caf::behavior make_behavior() override;
  void on_exit() override { director_ = nullptr; }

 private:
  void on_failure(const std::string& what) override;
  void on_down(const caf::actor_addr&) override {}

  caf::actor director_;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::FinishCheckpoint)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::CheckpointFinished)
