#include "actors/worker/step_tokens.h"

#include <chrono>

#include "actors/worker/token_broadcast.h"

namespace troupe::actors {

StepTokens::StepTokens(const Source& source)
    : source_(source),
      ids_(static_cast<std::size_t>(source.tokens *
                                    (source.broadcast ? source.num_microbatches : 1))),
      targets_(ids_.size()) {}

double StepTokens::begin(std::int64_t step) {
  step_ = step;
  if (!source_.broadcast) return 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int m = 0; source_.feed && m < source_.num_microbatches; ++m)
    source_.feed->microbatch(step_, source_.replica, m, part(ids_, m), part(targets_, m));
  source_.broadcast->run(ids_, targets_);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void StepTokens::load(int microbatch) {
  if (!source_.broadcast)
    source_.feed->microbatch(step_, source_.replica, microbatch, ids_, targets_);
}

std::span<std::int32_t> StepTokens::part(std::vector<std::int32_t>& tokens, int microbatch) const {
  const auto count = static_cast<std::size_t>(source_.tokens);
  const std::size_t first = source_.broadcast ? static_cast<std::size_t>(microbatch) * count : 0;
  return std::span(tokens).subspan(first, count);
}

stages::BatchPlace StepTokens::place_of(int microbatch) const {
  const std::int64_t place = std::int64_t{source_.replica} * source_.num_microbatches + microbatch;
  return {.step = step_, .first_sample = place * source_.samples};
}

}  // namespace troupe::actors
