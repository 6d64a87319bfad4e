#pragma once

#include <optional>
#include <string_view>

#include "actors/topology/reports/reports.h"
#include "actors/topology/run_spec.h"
#include "launch/host/machine.h"

namespace troupe::launch {

/// The model FLOP of training on one token: 6 for each element of a matrix that multiplies it (a
/// multiplication and an addition in each of three products), which those of the embedding's table
/// do not unless the head shares it, and for attention 12 * layers * width * sequence (PaLM, arXiv
/// 2204.02311, appendix B, which counts no part of the causal rule). What is computed again is not
/// counted.
double flop_per_token(const actors::RunSpec& spec);

/// What a GPU of this name does at most, in dense FLOP/s, in matrix products of bfloat16 (with
/// float32 sums), tf32 or float32; 0 for a name that is not in the table.
double peak_of_gpu(std::string_view name, tensor::DType dtype, bool tf32);

/// What model FLOP utilization is computed from.
struct PeakRate {
  double flop_per_token = 0;
  double flop_per_s = 0;  ///< peak rate of a rank; 0: unknown

  /// The model FLOP/s of a step over the peak of all ranks; none if the peak is unknown.
  std::optional<double> utilization(const actors::StepReport& report, double ranks) const;
};

/// The rates of a run on this machine: `given_tflops` (monitor.peak_tflops) if it is not 0, else
/// that of the run's GPU. Unknown for a CPU.
PeakRate peak_rate(const actors::RunSpec& spec, double given_tflops, const Machine& machine);

}  // namespace troupe::launch
