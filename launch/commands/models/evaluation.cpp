#include "launch/commands/models/evaluation.h"

#include "launch/commands/models/inference.h"
#include "stages/stage/row_sizes.h"

namespace troupe::launch {
namespace {

using tensor::Tensor;

/// A stage's input or output, which this rank has in memory of its own; empty for an end of the
/// model.
struct Boundary {
  Boundary(const stages::Stage& stage, tensor::Device& device, bool is_end) {
    if (is_end) return;
    const tensor::Shape shape = stage.edge_shape();
    memory = device.allocate(
        static_cast<std::size_t>(shape.num_elements()) * size_of(stage.edge_dtype()),
        tensor::MemoryKind::device);
    x = memory.view(stage.edge_dtype(), shape);
  }
  tensor::Buffer memory;
  Tensor x;
};

}  // namespace

std::unique_ptr<stages::DataFeed> EvaluationWork::feed(const stages::ModelConfig& model) const {
  return std::make_unique<stages::DataFeed>(stages::TokenFile::open(tokens, name),
                                            stages::FeedSpec{.documents = documents,
                                                             .seq_len = seq_len,
                                                             .micro = micro,
                                                             .global = micro,
                                                             .vocab_size = model.vocab_size,
                                                             .once = true});
}

void evaluate_part(OwnRank& rank, const EvaluationWork& work,
                   const stages::CheckpointReader& checkpoint,
                   const std::function<stages::PartLinks(const actors::StageMessages&)>& links,
                   const stages::Progress& progress,
                   const std::function<void(std::int64_t step, double loss,
                                            const actors::StepTokens& tokens)>& on_step) {
  const stages::ModelConfig& model = checkpoint.info().model;
  const stages::ModelPart& part = rank.part();
  tensor::Device& device = rank.device();
  const auto feed = work.feed(model);
  const auto stage = part_of_model(model, part, work.micro, work.seq_len, device, work.documents);
  const Boundary input(*stage, device, part.is_first()), output(*stage, device, part.is_last());
  const stages::PartLinks own =
      links({.shapes = {stage->edge_shape()}, .dtype = stage->edge_dtype()});
  stage->join({.forward = own.shards});
  checkpoint.load(*stage, true, progress);
  stage->begin_step();
  actors::StepTokens tokens(
      {.feed = feed.get(),
       .documents = work.documents,
       .rows = stages::row_sizes(work.documents, work.micro * work.seq_len, part.tp),
       .samples = work.micro,
       .num_microbatches = 1},
      device);
  const auto stream = device.make_stream();
  for (std::int64_t step = 0; step < work.steps; ++step) {
    tokens.begin(step);
    tokens.load(0);
    if (input.x) {
      own.stages->receive(*stream, input.x);
      stream->synchronize();
    }
    const double loss = stage->evaluate(0, input.x, output.x, tokens.ids(0), tokens.targets(0),
                                        tokens.documents(0));
    if (output.x) own.stages->send(*stream, output.x);
    on_step(step, loss, tokens);
  }
}

void follow_evaluation(OwnRank& rank, const EvaluationWork& work) {
  evaluate_part(
      rank, work, *open_language_model(rank.spec().checkpoint),
      [&](const actors::StageMessages& messages) { return rank.join(messages); }, {},
      [](std::int64_t, double, const actors::StepTokens&) {});
}

}  // namespace troupe::launch
