#include "launch/planner/prediction.h"

#include <fmt/format.h>

#include <cmath>

#include "actors/topology/assembly.h"
#include "actors/topology/memory/memory_plan.h"
#include "launch/host/quantities.h"
#include "launch/manifest/inputs/work.h"

namespace troupe::launch {

actors::RunSpec on_machine(actors::RunSpec spec, const schedules::MachineModel& machine) {
  spec.cluster.device.kind = machine.device.kind == schedules::MachineModel::Kind::gpu
                                 ? tensor::DeviceKind::cuda
                                 : tensor::DeviceKind::cpu;
  spec.cluster.stage_kinds.clear();
  spec.cluster.hosts.clear();
  spec.cluster.context_bytes.reset();  // of this machine's GPUs
  return spec;
}

Prediction predict(const actors::RunSpec& spec, const schedules::MachineModel& machine) {
  const actors::ClusterShape shape = actors::first_shape(spec);
  const actors::Assembly assembly = actors::assemble(spec, shape);
  return {.step = schedules::predict_step(work_of(spec), assembly.plan,
                                          actors::layers_of(shape.layout), machine),
          .memory_bytes = actors::memory_of_fullest(spec, shape, assembly).own_total(),
          .room_bytes = std::llround(machine.device.memory_gib * (std::int64_t{1} << 30))};
}

std::int64_t memory_of_fullest(const actors::RunSpec& spec) {
  const actors::ClusterShape shape = actors::first_shape(spec);
  return actors::memory_of_fullest(spec, shape, actors::assemble(spec, shape)).own_total();
}

nlohmann::json to_json(const Prediction& prediction) {
  const schedules::StepPrediction& step = prediction.step;
  return {
      {"devices", step.devices},
      {"step_s", step.step_s},
      {"tokens_per_s", step.tokens_per_s},
      {"mfu", step.mfu},
      {"hfu", step.hfu},
      {"bubble_share", step.bubble_share},
      {"compute_s", step.compute_s},
      {"optimizer_s", step.optimizer_s},
      {"exposed",
       {{"shards_s", step.shards_s}, {"replicas_s", step.replicas_s}, {"edges_s", step.edges_s}}},
      {"memory_bytes", prediction.memory_bytes},
      {"fits", prediction.fits()}};
}

std::string to_text(const Prediction& prediction, const MachineDescription& machine) {
  const schedules::StepPrediction& step = prediction.step;
  std::string out = fmt::format("On {} devices of {}", step.devices, machine.name);
  if (!machine.host.empty())
    out +=
        fmt::format(" ({} of host {}, measured {})", machine.processor, machine.host, machine.date);
  out += fmt::format(":\n  step        {:>10}   {} tokens/s\n", span_text(step.step_s),
                     grouped(std::llround(step.tokens_per_s)));
  out +=
      fmt::format("  mfu         {:>10.1f} % of the peak; {:.1f} % with what is computed again\n",
                  100 * step.mfu, 100 * step.hfu);
  const auto part = [&](const char* name, double seconds, const char* what) {
    return fmt::format("  {:<11} {:>10}   {:>4.1f} %  {}\n", name, span_text(seconds),
                       100 * seconds / step.step_s, what);
  };
  out += part("compute", step.compute_s, "passes of all microbatches");
  out += part("bubble", step.bubble_share * step.step_s, "ranks stand still");
  out += part("shards", step.shards_s, "collectives of shards that nothing hides");
  out += part("replicas", step.replicas_s, "gradients and gathered weights that nothing hides");
  out += part("edges", step.edges_s, "messages between stages");
  out += part("optimizer", step.optimizer_s, "the update");
  return out + fmt::format("  memory      {:>10}   of {}: {}\n",
                           bytes_text(prediction.memory_bytes), bytes_text(prediction.room_bytes),
                           prediction.fits() ? "fits" : "does not fit");
}

}  // namespace troupe::launch
