#include "actors/director/checkpoint_actor.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

#include "actors/director/replica_actor.h"
#include "stages/files/checkpoint/room.h"
#include "stages/storage/not_there.h"
#include "tensor/errors/error.h"

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

CheckpointContext checkpoint_context(const RunSpec& spec, stages::Claim claim,
                                     stages::ModelSource source, std::shared_ptr<Hosts> hosts) {
  return {.dir = spec.dir + "/checkpoints",
          .kept = {.newest = spec.checkpoint.keep,
                   .best = spec.checkpoint.keep_best,
                   .set = spec.eval.compared(spec.batch.global)},
          .claim = std::move(claim),
          .source = std::move(source),
          .hosts = std::move(hosts)};
}

CheckpointActor::CheckpointActor(caf::actor_config& config, CheckpointContext context)
    : ControlActor(config), context_(std::move(context)) {}

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
  CheckpointFinished finished{.published = {.step = request.info.step, .error = request.error},
                              .remarks = {}};
  if (finished.published.error.empty())
    finished.published.error = error_of([&] {
      context_.claim.check();
      gather(request);
      finished.remarks = remarks_of(complete(request), request.info.step);
    });
  if (context_.hosts) context_.hosts->drop_parts();
  // If the run ends at once, the next run that writes here removes what is left.
  if (request.stop.stop_requested() || !context_.claim.stands()) return finished;
  // What is left of a failed checkpoint would only take room that the next one needs.
  const std::string error = error_of([&] {
    if (evaluated_ && evaluated_->step == request.info.step)
      stages::note_evaluation(context_.dir, *evaluated_);
    stages::prune_checkpoints(context_.dir, context_.kept);
  });
  if (finished.published.error.empty() &&
      !error.empty())  // else the next checkpoint meets and reports it
    finished.remarks.push_back("older checkpoints stay: " + error);
  return finished;
}

/// Fetches the parts of hosts that do not see the run's directory.
void CheckpointActor::gather(const FinishCheckpoint& request) {
  if (!context_.hosts) return;
  const auto why_stop = [&] {
    return std::string(request.stop.stop_requested() ? "stopped half way" : "");
  };
  const auto removed = stages::write_with_room(
      context_.dir, [&] { context_.hosts->gather(request.unfinished, request.hosts, why_stop); });
  stages::note_removed(request.unfinished, removed);
}

/// Where hosts share the directory, this one may see what others wrote a while later than they did.
stages::CheckpointNotes CheckpointActor::complete(const FinishCheckpoint& request) {
  constexpr std::chrono::milliseconds kAgain{100};
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::seconds(context_.hosts && !request.hosts.empty() ? 60 : 0);
  while (true) try {
      return stages::finish_checkpoint(request.unfinished, request.info, request.num_parts,
                                       context_.source, request.stop);
    } catch (const stages::NotThere&) {
      if (std::chrono::steady_clock::now() >= deadline || request.stop.stop_requested()) throw;
      std::this_thread::sleep_for(kAgain);
    }
}

/// An evaluation of the last step comes after its checkpoint, and no other checkpoint after that.
void CheckpointActor::note(const NoteEvaluation& word) {
  evaluated_ = word.evaluated;
  if (!context_.claim.stands()) return;
  const std::string error = error_of([&] {
    if (stages::note_evaluation(context_.dir, word.evaluated))
      stages::note_best(context_.dir, context_.kept.best, context_.kept.set);
  });
  if (!error.empty())
    send(director_, Note{fmt::format("the checkpoint of step {} lacks its loss: {}",
                                     word.evaluated.step, error)});
}

void CheckpointActor::on_failure(const std::string& what) {
  send(director_, Event{DirectorFailed{.message = "a checkpoint: " + what}});
}

}  // namespace troupe::actors
