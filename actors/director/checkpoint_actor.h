#pragma once

#include <caf/actor.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/hosts/director_messages.h"
#include "actors/hosts/hosts.h"
#include "actors/messages/control_plane.h"
#include "actors/monitors/event.h"
#include "actors/protocol/protocol_events.h"
#include "actors/topology/run_spec.h"
#include "stages/files/checkpoint/best_checkpoints.h"
#include "stages/files/checkpoint/checkpoint.h"
#include "stages/storage/claim.h"

namespace troupe::actors {

/// What a checkpoint actor works with.
struct CheckpointContext {
  std::string dir;  ///< directory of the run's checkpoints
  stages::KeptCheckpoints kept;
  stages::Claim claim;  ///< the run's, to its directory
  stages::ModelSource source;
  std::shared_ptr<Hosts> hosts;  ///< other hosts, some of which may keep parts; null: none
};
/// The context of a run, which keeps the checkpoints that its spec asks for.
CheckpointContext checkpoint_context(const RunSpec& spec, stages::Claim claim,
                                     stages::ModelSource source, std::shared_ptr<Hosts> hosts = {});

/// The order to complete a checkpoint: no rank writes in its directory any more. Sent only within
/// the launcher.
struct FinishCheckpoint {
  std::string unfinished;  ///< directory into which the ranks have written
  stages::CheckpointInfo info;
  int num_parts = 0;
  std::vector<std::string> hosts;  ///< those of the ranks that have written
  std::string error;               ///< why a rank could not write its part; empty: all could
  std::stop_token stop;            ///< requested if the run ends at once
};

/// Word of an evaluation, for the checkpoint of its step. Sent only within the launcher.
struct NoteEvaluation {
  stages::EvaluatedStep evaluated;
};

/// The answer to FinishCheckpoint. Sent only within the launcher.
struct CheckpointFinished {
  Published published;
  std::vector<std::string> remarks;  ///< what became of others, a line for people each
};

/// Completes checkpoints, notes which are the best, and removes old ones and what is left of failed
/// ones. Has a thread of its own, so that the director never waits for a disk. Answers the sender
/// of each FinishCheckpoint when all this is done; sends a Note if an evaluation cannot be noted.
class CheckpointActor : public ControlActor {
 public:
  CheckpointActor(caf::actor_config& config, CheckpointContext context);
  caf::behavior make_behavior() override;
  void on_exit() override { director_ = nullptr; }

 private:
  void on_failure(const std::string& what) override;

  CheckpointFinished finish(const FinishCheckpoint& order);
  stages::CheckpointNotes complete(const FinishCheckpoint& order);
  void gather(const FinishCheckpoint& order);
  void note(const NoteEvaluation& word);

  /// The newest evaluation, of a step whose checkpoint may not be complete yet.
  std::optional<stages::EvaluatedStep> evaluated_;
  caf::actor director_;  ///< the sender of the newest order
  const CheckpointContext context_;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::FinishCheckpoint)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::NoteEvaluation)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::CheckpointFinished)
