#include "launch/manifest/resolve/reshape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/topology/layer_split.h"
#include "launch/manifest/resolve/resolve.h"

namespace troupe::launch {
namespace {

/// The text of mesh.layout for a shape: the current text if it still describes the shape's layout.
std::string layout_text(const actors::RunSpec& spec, const actors::ClusterShape& shape) {
  const std::vector<int> layers = actors::layers_of(shape.layout);
  for (const std::string& text : {spec.layout, std::string()}) {
    const actors::LayerSplit split = actors::parse_split(text);
    if (split.layers == layers) return text;
    if (!split.layers.empty() || std::ssize(layers) > spec.model.num_hidden_layers) continue;
    if (actors::split_layers(split, spec.model, static_cast<int>(layers.size())) == layers)
      return text;
  }
  return fmt::format("{}", fmt::join(layers, ","));
}

}  // namespace

Manifest with_shape(Manifest manifest, const actors::ClusterShape& shape, const Machine& machine) {
  const auto& [kind, chunks, csv, costs] = shape.schedule;
  manifest->mesh.pp = shape.mesh.pp;
  manifest->mesh.dp = shape.mesh.dp;
  manifest->mesh.tp = shape.mesh.tp;
  manifest->layout = layout_text(*manifest, shape);
  manifest->schedule.kind = kind;
  manifest->schedule.csv = csv;
  manifest->schedule.costs = costs;
  resolve_shape(manifest, machine);
  // A change of shape may keep a number of chunks that is not the schedule's default.
  if (int& own = manifest->schedule.chunks; own != chunks) {
    manifest.given(own) ? manifest.resolve(own, chunks)
                        : manifest.settle(manifest.key_of(own), std::int64_t{chunks});
  }
  return manifest;
}

}  // namespace troupe::launch
