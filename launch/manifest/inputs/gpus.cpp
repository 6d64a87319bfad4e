#include "launch/manifest/inputs/gpus.h"

#include <fmt/format.h>

#include "actors/topology/shape_rules.h"

namespace troupe::launch {
namespace {

bool asks_for_cuda(const Manifest& manifest) {
  return manifest->cluster.device.kind == tensor::DeviceKind::cuda;
}

}  // namespace

void look_for_gpus(const Manifest& manifest, Machine& machine) {
  if (!asks_for_cuda(manifest)) return;
  machine.gpus = own_gpus();
  const auto& mesh = manifest->mesh;
  actors::RunSpec::Cluster cluster = manifest->cluster;
  cluster.emulates_gpus = machine.gpus->emulates;
  if (const std::string wrong = actors::fault_of_device(cluster, mesh); !wrong.empty())
    manifest.fail(manifest->cluster.device.kind,
                  "cluster.device = 'cuda' with mesh.pp = {}, mesh.dp = {} and mesh.tp = {}: {}",
                  mesh.pp, mesh.dp, mesh.tp, wrong);
}

void require_gpu(const Manifest& manifest, const Machine& machine) {
  if (asks_for_cuda(manifest) && !machine.gpus->fault.empty())
    manifest.fail_as(ErrorKind::unavailable, manifest->cluster.device.kind,
                     "cluster.device = 'cuda': {}", machine.gpus->fault);
}

}  // namespace troupe::launch
