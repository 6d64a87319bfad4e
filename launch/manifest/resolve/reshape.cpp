#include "launch/manifest/resolve/reshape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/topology/layer_split.h"
#include "launch/manifest/resolve/resolve.h"
#include "launch/manifest/resolve/run_spec.h"

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
  manifest.resolve("mesh.pp", std::int64_t{shape.mesh.pp});
  manifest.resolve("mesh.dp", std::int64_t{shape.mesh.dp});
  manifest.resolve("mesh.tp", std::int64_t{shape.mesh.tp});
  manifest.resolve("mesh.layout", layout_text(to_run_spec(manifest), shape));
  manifest.resolve("schedule.kind", shape.schedule.kind);
  manifest.resolve("schedule.csv", shape.schedule.csv);
  manifest.resolve("schedule.costs", shape.schedule.costs);
  resolve_shape(manifest, machine);
  // A change of shape may keep a number of chunks that is not the schedule's default.
  const std::int64_t chunks = shape.schedule.chunks;
  if (manifest.integer("schedule.chunks") != chunks) {
    manifest.given("schedule.chunks") ? manifest.resolve("schedule.chunks", chunks)
                                      : manifest.settle("schedule.chunks", chunks);
  }
  return manifest;
}

}  // namespace troupe::launch
