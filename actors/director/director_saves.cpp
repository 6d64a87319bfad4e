#include <set>

#include "actors/director/director.h"
#include "stages/decoder/stage/optimizer.h"
#include "stages/files/checkpoint/checkpoint.h"

// How the director performs what its protocol decides of checkpoints and evaluations.

namespace troupe::actors {
namespace {

stages::Training training_of(const RunSpec& spec, std::int64_t step) {
  return {.seed = spec.seed,
          .digest = spec.data.digest,
          .shuffle = spec.data.shuffle,
          .documents = std::string(stages::name_of(spec.batch.documents)),
          .loss_on = std::string(stages::name_of(spec.data.loss_on)),
          .bos = spec.data.rules.bos,
          .end_of_document = spec.data.rules.end_of_document,
          .global = spec.batch.global,
          .lr = stages::learning_rate(spec.optimizer, step)};
}

/// The hosts of its ranks.
std::vector<std::string> hosts_of(const Configuration& configuration) {
  std::set<std::string> hosts;
  for (int rank = 0; rank < configuration.num_ranks(); ++rank)
    hosts.insert(configuration.members.at(rank).host);
  return {hosts.begin(), hosts.end()};
}

}  // namespace

void Director::perform(const OrderSave& effect) {
  save_begin_s_ = now_s();
  context_.board.write([](RunStatus& status) {
    // The numbers until now are of the checkpoint before.
    for (RankStatus& rank : status.ranks) rank.saved_bytes = 0;
  });
  unfinished_ = stages::unfinished_checkpoint(context_.spec.dir + "/checkpoints", effect.step);
  order_all(Save{.configuration = protocol_.configuration().number,
                 .step = effect.step,
                 .dir = unfinished_,
                 .owner_file = context_.claim.file.string(),
                 .owner = context_.claim.text});
}

void Director::perform(const PublishCheckpoint& effect) {
  const RunSpec& spec = context_.spec;
  send(context_.checkpoints,
       FinishCheckpoint{
           .unfinished = unfinished_,
           .info = {.step = effect.step,
                    .next_sample = context_.sample_origin + effect.step * spec.batch.global,
                    .model = spec.model,
                    .tokenizer = spec.data.tokenizer,
                    .seq_len = spec.batch.seq_len,
                    .training = training_of(spec, effect.step)},
           .num_parts = protocol_.configuration().shape.mesh.pp,
           .hosts = hosts_of(protocol_.configuration()),
           .error = effect.error,
           .stop = abandon_.get_token()});
}

void Director::perform(const AbandonCheckpoint&) {
  abandon_.request_stop();
}

void Director::finished(const CheckpointFinished& checkpoint) {
  const auto& [step, error] = checkpoint.published;
  if (error.empty()) {
    limits_.took_save(now_s() - save_begin_s_);
    const std::string path = checkpoint_path(context_.spec, step);
    context_.observer.on_checkpoint(step, path);
    tell(CheckpointSaved{.path = path, .duration_s = now_s() - save_begin_s_}, -1, step);
  }
  for (const std::string& remark : checkpoint.remarks) announce(remark);
  handle(checkpoint.published);
}

void Director::perform(const Evaluate& effect) {
  order_all(effect);
}

void Director::perform(const ReportEvaluation& effect) {
  const RunSpec& spec = context_.spec;
  EvalReport report{.step = effect.step, .loss = effect.losses.at(0), .sets = {}};
  if (effect.losses.size() > 1)
    for (std::size_t i = 0; i < effect.losses.size(); ++i)
      report.sets.push_back({.name = spec.eval.sets.at(i).name, .loss = effect.losses[i]});
  context_.observer.on_eval(report);
  tell(EvaluationDone{.loss = report.loss, .sets = report.sets}, -1, effect.step);
  send(context_.checkpoints,
       NoteEvaluation{.evaluated = {.step = effect.step,
                                    .loss = report.loss,
                                    .set = spec.eval.compared(spec.batch.global)}});
  step_begin_s_ = now_s();  // an evaluation does not count in the next step's time
}

}  // namespace troupe::actors
