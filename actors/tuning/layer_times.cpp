#include "actors/tuning/layer_times.h"

#include <algorithm>
#include <utility>

#include "actors/topology/validation.h"
#include "schedules/analysis/simulate.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

using schedules::Op;

/// A chunk of the layout, its place in its copy of the model, and one measured time.
struct ChunkSample {
  int stage = 0;
  double layers = 0;
  bool first = false, last = false;
  double seconds = 0;  ///< time of one kind of action
  double per_layer() const { return seconds / layers; }
};

std::vector<ChunkSample> parts_of(const Layout& layout, const Measured& measured, std::size_t op) {
  std::vector<ChunkSample> parts;
  for (std::size_t i = 0; i < layout.chunks.size(); ++i) {
    const auto& chunk = layout.chunks[i];
    parts.push_back({.stage = chunk.stage,
                     .layers = static_cast<double>(chunk.end_layer - chunk.first_layer),
                     .first = layout.is_first(i),
                     .last = layout.is_last(i),
                     .seconds = measured.chunks[i].seconds[op]});
  }
  return parts;
}

/// The time of one layer, from chunks that have only layers; else from first chunks, which also
/// have the embedding; else from last chunks.
double usual_layer(const std::vector<ChunkSample>& parts) {
  std::vector<double> inner, first, last;
  for (const ChunkSample& part : parts) {
    if (part.layers == 0) continue;
    (part.first ? first : part.last ? last : inner).push_back(part.per_layer());
  }
  return median(!inner.empty() ? inner : !first.empty() ? first : last);
}

double layer_on(int stage, const std::vector<ChunkSample>& parts) {
  double layers = 0, seconds = 0, at_most = usual_layer(parts);
  for (const ChunkSample& part : parts) {
    if (part.stage != stage || part.layers == 0) continue;
    at_most = std::min(at_most, part.per_layer());
    if (part.first || part.last) continue;
    layers += part.layers;
    seconds += part.seconds;
  }
  return layers > 0 ? seconds / layers : at_most;
}

/// The average time of the parts that `has` selects, without the time of their layers.
template <typename Has>
double rest(const std::vector<ChunkSample>& parts, const std::vector<ActionTimes>& layer,
            std::size_t op, const Has& has) {
  double seconds = 0, count = 0;
  for (const ChunkSample& part : parts) {
    if (!has(part)) continue;
    const double each = layer[static_cast<std::size_t>(part.stage)].seconds[op];
    seconds += std::max(0.0, part.seconds - each * part.layers);
    ++count;
  }
  return seconds / count;
}

}  // namespace

LayerTimes layer_times(const Layout& layout, const Measured& measured) {
  LayerTimes times{.layer = std::vector<ActionTimes>(static_cast<std::size_t>(layout.stages)),
                   .embedding = {},
                   .head = {}};
  for (std::size_t op = 0; op < times.head.seconds.size(); ++op) {
    const auto parts = parts_of(layout, measured, op);
    for (int stage = 0; stage < layout.stages; ++stage)
      times.layer[static_cast<std::size_t>(stage)].seconds[op] = layer_on(stage, parts);
    const auto is_first = [](const ChunkSample& part) { return part.first; };
    const auto is_last = [](const ChunkSample& part) { return part.last; };
    times.embedding.seconds[op] = rest(parts, times.layer, op, is_first);
    times.head.seconds[op] = rest(parts, times.layer, op, is_last);
  }
  return times;
}

StepSimulation::StepSimulation(const RunSpec& spec, const ClusterShape& shape, LayerTimes times,
                               double hop_s)
    : plan_(make_plan(with_shape(spec, shape))),
      times_(std::move(times)),
      hop_s_(hop_s),
      barrier_(barrier_of(spec, shape)) {}

schedules::StageCosts costs_of(const ActionTimes& times) {
  return {.forward = times.of(Op::F),
          .input_gradient = times.of(Op::I),
          .weight_gradient = times.of(Op::W),
          .backward = times.of(Op::B),
          .pair = std::nullopt,
          .collectives = {.forward = times.collective_of(Op::F),
                          .input_gradient = times.collective_of(Op::I),
                          .weight_gradient = times.collective_of(Op::W),
                          .backward = times.collective_of(Op::B)}};
}

schedules::Costs StepSimulation::costs(const Layout& layout) const {
  schedules::Costs costs;
  costs.hop = hop_s_;
  costs.pairs = schedules::Pairs::when_ready;
  costs.barrier = barrier_;
  for (std::size_t i = 0; i < layout.chunks.size(); ++i) {
    const Layout::Chunk& chunk = layout.chunks[i];
    const ActionTimes& layer = times_.layer[static_cast<std::size_t>(chunk.stage)];
    ActionTimes chunk_times;
    for (std::size_t k = 0; k < chunk_times.seconds.size(); ++k)
      chunk_times.seconds[k] = layer.seconds[k] * (chunk.end_layer - chunk.first_layer) +
                               (layout.is_first(i) ? times_.embedding.seconds[k] : 0) +
                               (layout.is_last(i) ? times_.head.seconds[k] : 0);
    costs.chunks.push_back(costs_of(chunk_times));
  }
  return costs;
}

double StepSimulation::simulated(const Layout& layout) const {
  const auto simulation = schedules::simulate(plan_, costs(layout));
  TROUPE_ASSERT(simulation.has_value());
  return simulation->step;
}

}  // namespace troupe::actors
