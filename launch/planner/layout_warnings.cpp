#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "launch/host/quantities.h"
#include "launch/planner/prediction.h"
#include "schedules/plan/counted.h"

namespace troupe::launch {
namespace {

/// Shards of a stage that a host has no room for.
std::string hosts_warning(const actors::RunSpec& spec, const schedules::MachineModel& machine) {
  const auto devices = static_cast<int>(machine.host.devices);
  if (spec.mesh.tp <= devices) return "";
  return fmt::format(
      "mesh.tp = {} is more than the {} of a host: shards wait for the network four times a layer; "
      "take mesh.tp = {} at most",
      spec.mesh.tp, schedules::counted(devices, "device"), devices);
}

/// A spec that takes less memory, and how to come to it.
struct Remedy {
  std::string key;
  actors::RunSpec spec;
};

std::vector<Remedy> remedies(const actors::RunSpec& spec) {
  using Mode = stages::Recompute::Mode;
  using Division = stages::StateDivision;
  std::vector<Remedy> out;
  if (spec.mesh.tp > 1 && !spec.mesh.sequence_parallel && spec.batch.seq_len % spec.mesh.tp == 0) {
    out.push_back({"mesh.sequence_parallel = true", spec});
    out.back().spec.mesh.sequence_parallel = true;
    out.back().spec.recompute.distribute_saved_activations = false;
  }
  for (const auto& [mode, name] : {std::pair{Mode::output, "output"}, {Mode::full, "full"}})
    if (spec.recompute.mode < mode) {
      out.push_back({fmt::format("recompute.mode = \"{}\"", name), spec});
      out.back().spec.recompute.mode = mode;
    }
  constexpr std::array kDivisions{std::pair{Division::optim, "optim"},
                                  std::pair{Division::optim_grads, "optim_grads"},
                                  std::pair{Division::optim_grads_params, "optim_grads_params"}};
  for (const auto& [division, name] : kDivisions)
    if (spec.mesh.dp > 1 && spec.data_parallel.division < division) {
      out.push_back({fmt::format("data_parallel.sharding = \"{}\"", name), spec});
      out.back().spec.data_parallel.division = division;
    }
  return out;
}

/// What would fit where the layout does not: the first change that suffices, alone, or on top of
/// those before it.
std::string memory_warning(const actors::RunSpec& spec, const Prediction& prediction) {
  if (prediction.fits()) return "";
  const std::string lacks =
      fmt::format("the fullest rank takes {}, but a device has {}",
                  bytes_text(prediction.memory_bytes), bytes_text(prediction.room_bytes));
  for (const Remedy& remedy : remedies(spec))
    if (const std::int64_t bytes = memory_of_fullest(remedy.spec); bytes <= prediction.room_bytes)
      return fmt::format("{}; with {} it would take {}", lacks, remedy.key, bytes_text(bytes));
  return lacks + "; no single change of recompute or sharding suffices: take more shards or stages";
}

}  // namespace

std::vector<std::string> layout_warnings(const actors::RunSpec& spec, const Prediction& prediction,
                                         const schedules::MachineModel& machine) {
  std::vector<std::string> texts{hosts_warning(spec, machine), memory_warning(spec, prediction)};
  std::erase(texts, "");
  return texts;
}

}  // namespace troupe::launch
