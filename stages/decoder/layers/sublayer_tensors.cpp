#include "stages/decoder/layers/sublayer_tensors.h"

#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using tensor::Tensor;

void move(const SublayerActivations& memory, SublayerActivations& activations) {
  const auto move = [](const Tensor& to, Tensor& tensor) {
    if (to) tensor = to;
  };
  using A = SublayerActivations;
  for (Tensor A::*tensor : {&A::x, &A::norm, &A::raw, &A::head_squares, &A::inner, &A::saved,
                            &A::lse, &A::hidden, &A::branch, &A::in_low, &A::out_low})
    move(memory.*tensor, activations.*tensor);
  for (NormStatistics A::*statistics : {&A::statistics, &A::end_statistics}) {
    move((memory.*statistics).mean, (activations.*statistics).mean);
    move((memory.*statistics).rstd, (activations.*statistics).rstd);
  }
  move(memory.routed.inner, activations.routed.inner);
  move(memory.routed.hidden, activations.routed.hidden);
  activations.scratch = memory.scratch;
}

}  // namespace

ActivationGroups discarded_by(Recompute::Mode mode) {
  switch (mode) {
    case Recompute::Mode::none:
      return {};
    case Recompute::Mode::selective:
      return {.core = true};
    case Recompute::Mode::output:
      return {.outputs = true};
    case Recompute::Mode::full:
      return {.core = true, .outputs = true, .sums = true, .inputs = true};
  }
  assert_failed("mode is a Mode", __FILE__, __LINE__);
}

ActivationGroups kept_by(Recompute::Mode mode) {
  const auto [core, outputs, sums, inputs, choice] = discarded_by(mode);
  return {.core = !core, .outputs = !outputs, .sums = !sums, .inputs = !inputs, .choice = !choice};
}

BlockActivations without_memory(const SublayerScratch& scratch) {
  return {.attention = {.scratch = scratch}, .feed_forward = {.scratch = scratch}};
}

void move_activations(const BlockActivations& memory, BlockActivations& activations) {
  move(memory.attention, activations.attention);
  move(memory.feed_forward, activations.feed_forward);
}

}  // namespace troupe::stages
