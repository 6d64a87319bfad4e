#include "actors/topology/stage_devices.h"

#include <algorithm>

namespace troupe::actors {

using tensor::DeviceKind;

tensor::DeviceSpec device_of(const RunSpec& spec, const RunSpec::Mesh& mesh, int stage) {
  tensor::DeviceSpec device = spec.cluster.device;
  const auto& kinds = spec.cluster.stage_kinds;
  if (std::ssize(kinds) == mesh.pp) device.kind = kinds[static_cast<std::size_t>(stage)];
  return device;
}

bool differ_in_device(const RunSpec& spec, const RunSpec::Mesh& mesh,
                      const std::vector<int>& ranks) {
  const auto kind_of = [&](int rank) {
    return device_of(spec, mesh, place_of(mesh, rank).stage).kind;
  };
  return std::ranges::any_of(ranks,
                             [&](int rank) { return kind_of(rank) != kind_of(ranks.front()); });
}

bool uses_gpus(const RunSpec& spec) {
  const auto& kinds = spec.cluster.stage_kinds;
  return spec.cluster.device.kind == DeviceKind::cuda ||
         std::ranges::find(kinds, DeviceKind::cuda) != kinds.end();
}

std::vector<int> ranks_on_gpus(const RunSpec& spec) {
  std::vector<int> ranks;
  for (int rank = 0; rank < spec.num_ranks(); ++rank)
    if (device_of(spec, spec.mesh, place_of(spec.mesh, rank).stage).kind == DeviceKind::cuda)
      ranks.push_back(rank);
  return ranks;
}

}  // namespace troupe::actors
