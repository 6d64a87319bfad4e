#include "actors/director/checkpoint_actor.h"

#include <fmt/format.h>

#include <utility>

#include "actors/director/replica_actor.h"
#include "actors/protocol/protocol_events.h"
#include "tensor/error.h"

namespace troupe::actors {
namespace {

/// The text of the error that the call threw; empty: none.
template <typename Call>
std::string error_of(Call&& call) {
  try {
    call();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::vector<std::string> remarks_of(const stages::CheckpointNotes& notes, std::int64_t step) {
  std::vector<std::string> remarks;
  for (const std::int64_t removed : notes.removed)
    remarks.push_back(
        fmt::format("the disk is full: step-{} made room for step-{}", removed, step));
  if (!notes.set_aside.empty())
    remarks.push_back(
        fmt::format("step-{} was there already, which this run has not written; it is kept as {}",
                    step, notes.set_aside.string()));
  return remarks;
}

}  // namespace

stages::KeptCheckpoints kept_checkpoints(const RunSpec& spec) {
  return {.newest = spec.checkpoint.keep,
          .best = spec.checkpoint.keep_best,
          .set = spec.eval.compared(spec.batch.global)};
}

CheckpointActor::CheckpointActor(caf::actor_config& config, stages::ModelSource source)
    : ControlActor(config), source_(std::move(source)) {}

caf::behavior CheckpointActor::make_behavior() {
  return {[this](const FinishCheckpoint& request) {
            director_ = caf::actor_cast<caf::actor>(current_sender());
            send(director_, finish(request));
          },
          [this](const NoteEvaluation& word) {
            director_ = caf::actor_cast<caf::actor>(current_sender());
            note(word);
          }};
}

CheckpointFinished CheckpointActor::finish(const FinishCheckpoint& request) {
  CheckpointFinished finished{.step = request.info.step, .error = request.error, .remarks = {}};
  if (finished.error.empty())
    finished.error = error_of([&] {
      request.claim.check();
      finished.remarks =
          remarks_of(stages::finish_checkpoint(request.unfinished, request.info, request.num_parts,
                                               source_, request.stop),
                     request.info.step);
    });
  // If the run ends at once, the next run that writes here removes what is left.
  if (request.stop.stop_requested() || !request.claim.stands()) return finished;
  // What is left of a failed checkpoint would only take room that the next one needs.
  const std::string error = error_of([&] {
    if (evaluated_ && evaluated_->step == request.info.step)
      stages::note_evaluation(request.dir, *evaluated_);
    stages::prune_checkpoints(request.dir, request.kept);
  });
  if (finished.error.empty() && !error.empty())  // else the next checkpoint meets and reports it
    finished.remarks.push_back("older checkpoints stay: " + error);
  return finished;
}

/// An evaluation of the last step comes after its checkpoint, and no other checkpoint after that.
void CheckpointActor::note(const NoteEvaluation& word) {
  evaluated_ = word.evaluated;
  if (!word.claim.stands()) return;
  const std::string error = error_of([&] {
    if (stages::note_evaluation(word.dir, word.evaluated))
      stages::note_best(word.dir, word.kept.best, word.kept.set);
  });
  if (!error.empty())
    send(director_, CheckpointRemark{fmt::format("the checkpoint of step {} lacks its loss: {}",
                                                 word.evaluated.step, error)});
}

void CheckpointActor::on_failure(const std::string& what) {
  send(director_, Event{DirectorFailed{.message = "a checkpoint: " + what}});
}

}  // namespace troupe::actors
