#include "launch/manifest/inputs/gpus.h"

#include <fmt/format.h>

#include "actors/topology/shape_rules.h"
#include "launch/manifest/resolve/run_spec.h"

namespace troupe::launch {
namespace {

bool asks_for_cuda(const Manifest& manifest) {
  return manifest.text("cluster.device") == "cuda";
}

}  // namespace

void look_for_gpus(const Manifest& manifest, Machine& machine) {
  if (!asks_for_cuda(manifest)) return;
  machine.gpus = own_gpus();
  actors::RunSpec spec = to_run_spec(manifest);
  spec.cluster.emulates_gpus = machine.gpus->emulates;
  if (const std::string wrong = actors::fault_of_device(spec.cluster, spec.mesh); !wrong.empty())
    manifest.fail("cluster.device",
                  fmt::format("cluster.device = 'cuda' with mesh.pp = {}, mesh.dp = {} and "
                              "mesh.tp = {}: {}",
                              spec.mesh.pp, spec.mesh.dp, spec.mesh.tp, wrong));
}

void require_gpu(const Manifest& manifest, const Machine& machine) {
  if (asks_for_cuda(manifest) && !machine.gpus->fault.empty())
    manifest.fail("cluster.device", fmt::format("cluster.device = 'cuda': {}", machine.gpus->fault),
                  ErrorKind::unavailable);
}

}  // namespace troupe::launch
