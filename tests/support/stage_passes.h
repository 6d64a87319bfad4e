#pragma once

#include "stages/stage/stage.h"

// Passes of a stage for callers that wait for each.

namespace troupe::stages {

/// Calls all nodes of a forward, and blocks until they have run.
inline void run_forward(Stage& stage, const ForwardCall& call) {
  const int count = static_cast<int>(stage.nodes(call.chunk, Pass::forward).size());
  for (int node = 0; node < count; ++node) stage.forward_node(call, node);
  stage.ran(call.chunk, call.slot).synchronize();
}

inline void run_backward(Stage& stage, const BackwardCall& call) {
  const int count = static_cast<int>(stage.nodes(call.chunk, call.pass).size());
  for (int node = 0; node < count; ++node) stage.backward_node(call, node);
  stage.ran(call.chunk, call.slot).synchronize();
}

/// Completes gradients() of a stage that has no replica and no copy, after the last action and the
/// exchange of tied_gradient(). Blocks until it has run.
inline void end_backward(Stage& stage) {
  stage.synchronize();
  const ParameterRange all{.first = 0, .end = static_cast<int>(stage.parameters().size())};
  tensor::Stream& stream = stage.stream_of(Pass::backward);
  stage.add_tied_uses(stream, all);
  for (const Sharers sharers : {Sharers::all, Sharers::kv_head})
    if (const auto work = stage.sum_over_shards(stream, all, sharers)) work->wait(stream);
  stage.synchronize();
}

}  // namespace troupe::stages
