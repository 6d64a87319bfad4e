#include "launch/manifest/inputs/peak_rate.h"

#include <algorithm>
#include <array>

#include "launch/manifest/inputs/work.h"

namespace troupe::launch {
namespace {

struct GpuPeak {
  std::string_view begin;              ///< of the name that the driver gives
  double bfloat16, tf32, float32 = 0;  ///< dense TFLOP/s
};

/// From NVIDIA's data sheets: H100 and H200 Tensor Core GPU, A100 80GB, HGX B200 (an eighth of it),
/// L40S, and the whitepapers of the Ada and of the RTX Blackwell architecture for the RTX 4090 and
/// 5090, whose rates are those of sums in float32. Where a sheet has numbers with sparsity, half of
/// them. A longer name comes before its beginning; laptops and other variants of a model have no
/// rate here.
constexpr std::array kPeaks{
    GpuPeak{"NVIDIA H200 NVL", 835.5, 417.5, 60},
    GpuPeak{"NVIDIA H200", 989.5, 494.5, 67},
    GpuPeak{"NVIDIA H100 PCIe", 756, 378, 51},
    GpuPeak{"NVIDIA H100 NVL", 835.5, 417.5, 60},
    GpuPeak{"NVIDIA H100", 989.5, 494.5, 67},
    GpuPeak{"NVIDIA B200", 2250, 1125, 75},
    GpuPeak{"NVIDIA A100", 312, 156, 19.5},
    GpuPeak{"NVIDIA L40S", 362, 183, 91.6},
    GpuPeak{"NVIDIA GeForce RTX 4090 ", 0, 0, 0},
    GpuPeak{"NVIDIA GeForce RTX 4090", 165.2, 82.6, 82.6},
    GpuPeak{"NVIDIA GeForce RTX 5090 ", 0, 0, 0},
    GpuPeak{"NVIDIA GeForce RTX 5090", 209.5, 104.8, 104.8},
};

}  // namespace

double flop_per_token(const actors::RunSpec& spec) {
  return schedules::model_flop_per_token(work_of(spec));
}

double peak_of_gpu(std::string_view name, tensor::DType dtype, bool tf32) {
  const auto found = std::ranges::find_if(
      kPeaks, [&](const GpuPeak& peak) { return name.starts_with(peak.begin); });
  if (found == kPeaks.end()) return 0;
  if (dtype == tensor::DType::bf16) return found->bfloat16 * 1e12;
  return (tf32 ? found->tf32 : found->float32) * 1e12;
}

std::optional<double> PeakRate::utilization(const actors::StepReport& report, double ranks) const {
  if (flop_per_s <= 0 || report.step_s <= 0 || ranks <= 0) return std::nullopt;
  return flop_per_token * report.tokens_per_s() / (flop_per_s * ranks);
}

PeakRate peak_rate(const actors::RunSpec& spec, double given_tflops, const Machine& machine) {
  PeakRate rate{.flop_per_token = flop_per_token(spec), .flop_per_s = given_tflops * 1e12};
  // Of devices of several kinds no one peak is known.
  if (given_tflops == 0 && spec.cluster.stage_kinds.empty() && machine.gpus &&
      !machine.gpus->devices.empty())
    rate.flop_per_s =
        peak_of_gpu(machine.gpus->devices.front().name, spec.model.dtype, spec.cluster.device.tf32);
  return rate;
}

}  // namespace troupe::launch
