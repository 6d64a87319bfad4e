#pragma once

#include <caf/actor.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/messages/control_plane.h"
#include "actors/topology/run_spec.h"
#include "stages/files/checkpoint/best_checkpoints.h"
#include "stages/files/checkpoint/checkpoint.h"
#include "stages/storage/claim.h"

namespace troupe::actors {

/// Which checkpoints the run keeps.
stages::KeptCheckpoints kept_checkpoints(const RunSpec& spec);

/// The order to complete a checkpoint: no rank writes in its directory any more. Sent only within
/// the launcher.
struct FinishCheckpoint {
  std::string dir;         ///< directory of the run's checkpoints
  std::string unfinished;  ///< directory into which the ranks have written
  stages::CheckpointInfo info;
  int num_parts = 0;
  stages::KeptCheckpoints kept;
  stages::Claim claim;   ///< the run's, to its directory
  std::string error;     ///< why a rank could not write its part; empty: all could
  std::stop_token stop;  ///< requested if the run ends at once
};

/// Word of an evaluation, for the checkpoint of its step. Sent only within the launcher.
struct NoteEvaluation {
  std::string dir;  ///< directory of the run's checkpoints
  stages::EvaluatedStep evaluated;
  stages::KeptCheckpoints kept;
  stages::Claim claim;
};

/// The answer to FinishCheckpoint. Sent only within the launcher.
struct CheckpointFinished {
  std::int64_t step = 0;
  std::string error;                 ///< why the checkpoint is not complete; empty: it is
  std::vector<std::string> remarks;  ///< what became of others, a line for people each
};

/// A line for people about a checkpoint that NoteEvaluation speaks of. Sent only within the
/// launcher.
struct CheckpointRemark {
  std::string text;
};

/// Completes checkpoints, notes which are the best, and removes old ones and what is left of failed
/// ones. Has a thread of its own, so that the director never waits for a disk. Answers the sender
/// of each FinishCheckpoint when all this is done.
class CheckpointActor : public ControlActor {
 public:
  CheckpointActor(caf::actor_config& config, stages::ModelSource source);
  caf::behavior make_behavior() override;
  void on_exit() override { director_ = nullptr; }

 private:
  void on_failure(const std::string& what) override;
  void on_down(const caf::actor_addr&) override {}

  CheckpointFinished finish(const FinishCheckpoint& order);
  void note(const NoteEvaluation& word);

  /// The newest evaluation, of a step whose checkpoint may not be complete yet.
  std::optional<stages::EvaluatedStep> evaluated_;
  caf::actor director_;  ///< the sender of the newest order
  const stages::ModelSource source_;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::FinishCheckpoint)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::NoteEvaluation)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::CheckpointFinished)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::CheckpointRemark)
