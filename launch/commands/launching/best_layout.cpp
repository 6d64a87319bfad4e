#include "launch/commands/launching/best_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "launch/manifest/inputs/inputs.h"
#include "launch/planner/search.h"

namespace troupe::launch {
namespace {

/// The preset of this machine's GPUs; empty if the run has none, or they have none.
std::string own_preset(const Manifest& manifest, Machine& here) {
  look_for_gpus(manifest, here);
  if (!here.gpus || here.gpus->devices.empty()) return "";
  return std::string(machine_of_gpu(here.gpus->devices.front().name));
}

std::string needs_machine(const Manifest& manifest) {
  return fmt::format(
      "{} looks for the fastest layout, for which --machine must say what a step takes: a preset, "
      "or the file that `troupe measure -o FILE` writes about this machine",
      manifest->auto_mesh ? "mesh.auto = true" : "--devices");
}

Manifest searched(const Manifest& manifest, const LayoutTarget& target, Machine here) {
  const std::string name = target.machine.empty() ? own_preset(manifest, here) : target.machine;
  if (name.empty()) throw Error(ErrorKind::usage, needs_machine(manifest));
  MachineDescription machine = describe_machine(name);
  if (!target.hosts.empty())
    machine.model.host.devices = std::ranges::min(target.hosts, {}, &actors::Host::slots).slots;
  const int devices = target.devices > 0 ? target.devices
                                         : devices_at_hand(manifest, target.hosts, std::move(here));
  const SearchResult result = search(manifest, machine, devices, 1);
  return with_layout(manifest, result.layouts.front().layout);
}

}  // namespace

int devices_at_hand(const Manifest& manifest, const std::vector<actors::Host>& hosts,
                    Machine here) {
  if (!hosts.empty()) {
    const auto spares = static_cast<std::size_t>(manifest->recovery.spare_hosts);
    int slots = 0;
    for (const actors::Host& host :
         std::span(hosts).first(hosts.size() - std::min(hosts.size(), spares)))
      slots += host.slots;
    return std::max(slots, 1);
  }
  if (manifest->cluster.device.kind == tensor::DeviceKind::cpu)
    return std::max(1, here.free_cores / manifest->cluster.device.threads);
  // Instances of GPUs are counted as they are named: nobody sees them all at once.
  const std::vector<std::string>& chosen = manifest->cluster.gpus;
  if (!chosen.empty()) return static_cast<int>(chosen.size());
  look_for_gpus(manifest, here);
  require_gpu(manifest, here);
  return static_cast<int>(here.gpus->devices.size());
}

Manifest with_best_layout(const Manifest& manifest, const LayoutTarget& target, Machine here) {
  if (!manifest->auto_mesh) return searched(manifest, target, std::move(here));
  return manifest.about(manifest->auto_mesh,
                        [&] { return searched(manifest, target, std::move(here)); });
}

}  // namespace troupe::launch
