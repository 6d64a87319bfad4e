#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <span>

#include "launch/commands/commands.h"
#include "launch/commands/inference.h"
#include "launch/host/console.h"
#include "launch/manifest/corpus.h"
#include "launch/manifest/tokenizing.h"
#include "schedules/counted.h"
#include "stages/checkpoint.h"
#include "stages/token_data.h"
#include "stages/transformer_stage.h"

namespace troupe::launch {
namespace {

constexpr std::int64_t kSamplesPerStep = 8;

struct Evaluation {
  double loss = 0;
  std::int64_t tokens = 0;
};

/// The mean loss over the first samples of the text, each read at most once.
Evaluation evaluate(const EvalOptions& options, const stages::CheckpointReader& checkpoint,
                    const std::function<std::unique_ptr<stages::TokenFile>()>& open) {
  const auto& info = checkpoint.info();
  stages::FeedSpec feed_spec{
      .seq_len = info.seq_len, .micro = 1, .global = 1, .vocab_size = info.model.vocab_size};
  const std::int64_t samples = stages::DataFeed(open(), feed_spec).num_samples();
  const std::int64_t micro = std::min(samples, kSamplesPerStep);
  feed_spec.micro = feed_spec.global = micro;
  const stages::DataFeed feed(open(), feed_spec);

  const auto device = device_for(options.device, options.threads);
  const auto stage = stages::make_transformer_stage(
      {.model = info.model,
       .chunks = {{.first_layer = 0,
                   .end_layer = static_cast<int>(info.model.num_hidden_layers),
                   .embedding = true,
                   .head = true}},
       .micro = micro,
       .seq_len = info.seq_len,
       .training = false},
      *device);
  checkpoint.load(*stage, true);
  stage->begin_step();
  // Pinned, so that a GPU can read the tokens.
  const auto count_of_step = static_cast<std::size_t>(micro * info.seq_len);
  const tensor::Buffer tokens =
      device->allocate(2 * count_of_step * sizeof(std::int32_t), tensor::MemoryKind::pinned);
  const std::span<std::int32_t> ids(static_cast<std::int32_t*>(tokens.data()), count_of_step);
  const std::span<std::int32_t> targets(ids.data() + count_of_step, count_of_step);
  const std::int64_t steps = std::min(options.steps, samples / micro);
  double sum = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    feed.microbatch(step, 0, 0, ids, targets);
    sum += stage->evaluate(0, {}, {}, ids, targets);
  }
  const std::int64_t count = steps * micro * info.seq_len;
  return {.loss = sum / static_cast<double>(count), .tokens = count};
}

}  // namespace

int run(const EvalOptions& options) {
  const auto checkpoint = stages::CheckpointReader::open(options.checkpoint);
  SignalWatch signals("");
  const std::vector<std::string> files = stages::expand_files(options.files);
  const std::string tokens =
      stages::prepare_tokens({.files = files, .tokenizer = checkpoint->tokenizer()}, token_cache(),
                             Tokenizing(signals).options());
  const stages::TokenCacheHold hold(tokens);
  const std::string name = fmt::format("{}", fmt::join(files, ", "));
  const Evaluation result =
      evaluate(options, *checkpoint, [&] { return stages::TokenFile::open(tokens, name); });
  const std::string exact =
      std::isfinite(result.loss) ? fmt::format("{:.17g}", result.loss) : "null";
  print(options.json ? fmt::format("{{\"loss\": {}, \"tokens\": {}}}\n", exact, result.tokens)
                     : fmt::format("loss {:.4f} over {}\n", result.loss,
                                   schedules::counted(result.tokens, "token")));
  return 0;
}

}  // namespace troupe::launch
