#pragma once

#include <string>
#include <vector>

#include "actors/topology/configuration.h"
#include "actors/tuning/layer_times.h"
#include "schedules/analysis/costs.h"
#include "tests/support/run_specs.h"

// A model whose layers, embedding and head take times that are known, for tests of what is measured
// and chosen.

namespace troupe::actors {

using schedules::Op;

inline RunSpec spec_of(const std::string& kind, int pp, int chunks, int layers) {
  RunSpec spec = test::small_run(pp);
  spec.model.num_hidden_layers = layers;
  spec.schedule = {.kind = kind, .chunks = chunks};
  spec.auto_layout = {.on = true, .gain = 0.05, .steps = 10};
  return spec;
}

inline ActionTimes times_of(double f, double i, double w) {
  ActionTimes times;
  times.of(Op::F) = f;
  times.of(Op::I) = i;
  times.of(Op::W) = w;
  times.of(Op::B) = i + w;
  return times;
}

/// Times of the parts of a model, of which those of its stages' actions are sums.
inline LayerTimes uneven(int stages) {
  return {.layer = std::vector<ActionTimes>(static_cast<std::size_t>(stages), times_of(1, 1, 1)),
          .embedding = times_of(0.5, 0, 1),
          .head = times_of(3, 3, 2)};
}

/// What a meter measures on a model with these times.
inline Measured measured_of(const Layout& layout, const LayerTimes& times, double step_s = 0) {
  Measured measured{.chunks = {}, .hop_s = 0.125, .step_s = step_s};
  for (std::size_t i = 0; i < layout.chunks.size(); ++i) {
    const auto& chunk = layout.chunks[i];
    ActionTimes sum;
    for (std::size_t op = 0; op < sum.seconds.size(); ++op)
      sum.seconds[op] = times.layer[static_cast<std::size_t>(chunk.stage)].seconds[op] *
                            (chunk.end_layer - chunk.first_layer) +
                        (layout.is_first(i) ? times.embedding.seconds[op] : 0) +
                        (layout.is_last(i) ? times.head.seconds[op] : 0);
    measured.chunks.push_back(sum);
  }
  return measured;
}

inline Configuration configuration_of(const ClusterShape& shape, std::uint32_t number) {
  return {.run = 1, .number = number, .shape = shape, .members = {}};
}

inline schedules::Costs costs_of(const ClusterShape& shape, const LayerTimes& times) {
  schedules::Costs costs;
  costs.hop = 0.125;
  for (const ActionTimes& chunk : measured_of(shape.layout, times).chunks)
    costs.chunks.push_back({.forward = chunk.of(Op::F),
                            .input_gradient = chunk.of(Op::I),
                            .weight_gradient = chunk.of(Op::W),
                            .backward = chunk.of(Op::B),
                            .pair = std::nullopt});
  return costs;
}

}  // namespace troupe::actors
