#include "actors/worker/step_tokens.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "actors/worker/token_broadcast.h"

namespace troupe::actors {

StepTokens::StepTokens(const Source& source, tensor::Device& device)
    : source_(source),
      memory_(device.allocate(2 * static_cast<std::size_t>(source.tokens) *
                                  static_cast<std::size_t>(source.num_microbatches) *
                                  sizeof(std::int32_t),
                              tensor::MemoryKind::pinned)),
      is_loaded_(static_cast<std::size_t>(source.num_microbatches)) {}

double StepTokens::begin(std::int64_t step) {
  step_ = step;
  std::ranges::fill(is_loaded_, false);
  if (!source_.broadcast) return 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int m = 0; source_.feed && m < source_.num_microbatches; ++m) read(m);
  source_.broadcast->run(all(0), all(1));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void StepTokens::load(int microbatch) {
  if (source_.broadcast || std::exchange(is_loaded_[static_cast<std::size_t>(microbatch)], true))
    return;
  read(microbatch);
}

void StepTokens::read(int microbatch) {
  source_.feed->microbatch(step_, source_.replica, microbatch, part(0, microbatch),
                           part(1, microbatch));
}

std::span<std::int32_t> StepTokens::all(int which) const {
  const auto count =
      static_cast<std::size_t>(source_.tokens) * static_cast<std::size_t>(source_.num_microbatches);
  return {static_cast<std::int32_t*>(memory_.data()) + static_cast<std::size_t>(which) * count,
          count};
}

std::span<std::int32_t> StepTokens::part(int which, int microbatch) const {
  const auto count = static_cast<std::size_t>(source_.tokens);
  return all(which).subspan(static_cast<std::size_t>(microbatch) * count, count);
}

stages::BatchPlace StepTokens::place_of(int microbatch) const {
  const std::int64_t place = std::int64_t{source_.replica} * source_.num_microbatches + microbatch;
  return {.step = step_, .first_sample = place * source_.samples};
}

}  // namespace troupe::actors
