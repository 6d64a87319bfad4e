#include "actors/topology/layers/layer_costs.h"

#include <vector>

#include "actors/topology/layers/layer_split.h"

namespace troupe::actors {
namespace {

/// The part of the model's layers that each chunk of a copy counts as.
std::vector<double> parts_of(const RunSpec& spec, const Layout& layout) {
  using Rule = LayerSplit::Rule;
  const Rule rule = parse_split(spec.layout).rule;
  const bool by_layers = rule == Rule::even || rule == Rule::by_hand;
  std::vector<double> parts;
  for (const int layers : layers_of(layout))
    parts.push_back(by_layers ? static_cast<double>(layers) /
                                    static_cast<double>(spec.model.num_hidden_layers)
                              : 1 / static_cast<double>(layout.chunks_per_copy()));
  return parts;
}

}  // namespace

schedules::Costs layer_costs(const RunSpec& spec, const ClusterShape& shape) {
  schedules::Costs costs = unit_costs(spec);
  const schedules::StageCosts whole = costs.stages.front();
  const std::vector<double> parts = parts_of(spec, shape.layout);
  for (std::size_t i = 0; i < shape.layout.chunks.size(); ++i) {
    const int stage = shape.layout.chunks[i].stage;
    const double share = parts[i % parts.size()] * shape.mesh.lanes_of(stage) /
                         shape.mesh.width(stage).tp / whole.forward;
    costs.chunks.push_back({.forward = whole.forward * share,
                            .input_gradient = whole.input_gradient * share,
                            .weight_gradient = whole.weight_gradient * share});
  }
  return costs;
}

}  // namespace troupe::actors
