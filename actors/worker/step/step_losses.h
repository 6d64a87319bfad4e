#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "actors/worker/step/step_tokens.h"
#include "tensor/device/device.h"

namespace troupe::actors {

/// The losses of a rank's microbatches in a step, and which part of them is of which source. A
/// device writes them into pinned memory; the host adds them when the step is over. Used by the
/// compute thread alone. Allocates nothing after construction.
class StepLosses {
 public:
  /// `device` outlives the object.
  StepLosses(const StepTokens::Source& source, tensor::Device& device);
  /// Sets the losses of all microbatches to 0.
  void begin();
  /// One float64, the microbatch's loss.
  tensor::Tensor of_microbatch(int microbatch) const;
  void set(int microbatch, double loss) { *of_microbatch(microbatch).as<double>() = loss; }
  /// Memory for the losses of a microbatch's rows; none if sources are not told apart
  /// (StepTokens::Source::num_sources).
  tensor::Tensor of_rows(int microbatch, std::int64_t rows);

  struct Total {
    double sum = 0;           ///< of the microbatches, added in ascending order
    int bad_microbatch = -1;  ///< the first one whose loss is not finite; -1: none
    /// The microbatches whose rows were asked for, by source; valid until the next call.
    std::span<const StepReport::SourceSum> sources;
  };
  /// Called when the device has run all of the step.
  Total add_up(const StepTokens& tokens);

 private:
  const int num_microbatches_;
  const std::int64_t capacity_;  // rows of a microbatch
  std::vector<StepReport::SourceSum> sums_;
  std::vector<char> has_rows_;    // by microbatch: its rows were asked for
  const tensor::Buffer losses_;   // float64, by microbatch
  const tensor::Buffer of_rows_;  // float64, rows by microbatch
};

}  // namespace troupe::actors
