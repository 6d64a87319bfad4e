#include <algorithm>
#include <array>

#include "schedules/planner/machine_model.h"

namespace troupe::schedules {
namespace {

/// What differs between the presets.
struct Row {
  double bfloat16, float32, units, sustained, memory, gib, devices, links, network, forward,
      backward;
  double hop = 3.4;
};

// Peaks, memory and units are of NVIDIA's data sheets, the GeForce's with sums in float32. Units
// sustain 0.89 of what the best shapes of ml-engineering's search reach, which is 0.79 of the peak
// on A100, the value that fits the runs of arXiv 2205.05198; L40S and 4090 follow from rates of
// llmq. Links are all-reduces of 8 devices (ml-engineering, vTrain). Latencies are those of NCCL's
// own model of a ring (src/graph/tuning.cc), shares of attention those of arXiv 2307.08691 and
// 2407.08608, less for causal and short sequences.
constexpr double kOverPcie = 5.7;

MachineModel machine(const Row& row) {
  return {
      .device = {.bfloat16_tflops = row.bfloat16,
                 .float32_tflops = row.float32,
                 .units = row.units,
                 .sustained = row.sustained,
                 .memory_gb_per_s = row.memory,
                 .memory_share = 0.80,
                 .memory_gib = row.gib,
                 .kernel_us = 3,
                 .attention_forward = row.forward,
                 .attention_backward = row.backward},
      .host = {.devices = row.devices, .gb_per_s = row.links, .hop_us = row.hop, .base_us = 8.4},
      .network = {.gb_per_s = row.network, .share = 0.90, .hop_us = 14}};
}

const std::array kPresets{
    MachinePreset{"a100-80g", machine({312, 19.5, 108, 0.79, 2039, 80, 8, 205, 25, 0.60, 0.50})},
    MachinePreset{"a100-40g", machine({312, 19.5, 108, 0.79, 1555, 40, 8, 205, 25, 0.60, 0.50})},
    MachinePreset{"h100-sxm", machine({989, 67, 132, 0.73, 3350, 80, 8, 370, 50, 0.55, 0.45})},
    MachinePreset{"h200", machine({989, 67, 132, 0.73, 4800, 140, 8, 370, 50, 0.55, 0.45})},
    MachinePreset{"b200", machine({2250, 75, 148, 0.71, 7700, 180, 8, 690, 50, 0.55, 0.45})},
    MachinePreset{"l40s",
                  machine({362, 91.6, 142, 0.53, 864, 45, 8, 20, 25, 0.35, 0.30, kOverPcie})},
    MachinePreset{"rtx-4090",
                  machine({165.2, 82.6, 128, 0.87, 1008, 24, 8, 12, 3.1, 0.60, 0.50, kOverPcie})},
};

}  // namespace

std::span<const MachinePreset> machine_presets() {
  return kPresets;
}

const MachineModel* find_machine_preset(std::string_view name) {
  const auto found = std::ranges::find(kPresets, name, &MachinePreset::name);
  return found == kPresets.end() ? nullptr : &found->model;
}

}  // namespace troupe::schedules
