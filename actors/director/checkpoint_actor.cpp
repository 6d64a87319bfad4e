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

CheckpointFinished finish(const FinishCheckpoint& request, const stages::ModelSource& source) {
  CheckpointFinished done{.step = request.info.step, .error = request.error, .remarks = {}};
  if (done.error.empty())
    done.error = error_of([&] {
      request.claim.check();
      done.remarks = remarks_of(stages::finish_checkpoint(request.unfinished, request.info,
                                                          request.num_parts, source, request.stop),
                                request.info.step);
    });
  // If the run ends at once, the next run that writes here removes what is left.
  if (request.stop.stop_requested() || !request.claim.stands()) return done;
  // What is left of a failed checkpoint would only take room that the next one needs.
  const std::string error = error_of([&] { stages::prune_checkpoints(request.dir, request.keep); });
  if (done.error.empty() && !error.empty())  // else the next checkpoint meets and reports it
    done.remarks.push_back("older checkpoints stay: " + error);
  return done;
}

}  // namespace

CheckpointActor::CheckpointActor(caf::actor_config& config, stages::ModelSource source)
    : ControlActor(config), source_(std::move(source)) {}

caf::behavior CheckpointActor::make_behavior() {
  return {[this](const FinishCheckpoint& request) {
    director_ = caf::actor_cast<caf::actor>(current_sender());
    send(director_, finish(request, source_));
  }};
}

void CheckpointActor::on_failure(const std::string& what) {
  send(director_, Event{DirectorFailed{.message = "a checkpoint: " + what}});
}

}  // namespace troupe::actors
