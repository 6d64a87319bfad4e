#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "tensor/parallel/parallel_linear.h"

namespace troupe::tensor {

/// The weight gradients of one column-parallel weight that wait for a time in which nothing else
/// computes, as those of the last stage's output layer for the end of a pipeline's step. They are
/// computed in the order in which they came, so that gradients add in the same order with any limit
/// and without deferral.
class DeferredWeightGradients {
 public:
  /// What one microbatch left. x and dy stay valid until the gradient is computed.
  struct Microbatch {
    Tensor x;   // as ColumnBackward::x
    Tensor dy;  // [T, O/n]
    Gradient gradient = Gradient::first;
  };
  /// Where the gradients go and what computing them takes.
  struct Target {
    Tensor dw, db;  // as ColumnBackward has them
    /// Two memories [T, I] of the layer's gathered_elements(): one is gathered into while the
    /// product reads the other. Empty if the layer gathers nothing.
    std::array<Tensor, 2> x_full;
  };

  /// limit: microbatches that wait at most, at least 1. The layer outlives this object.
  DeferredWeightGradients(ColumnParallelLinear& layer, const Target& target, std::size_t limit);

  /// Lets a microbatch wait. If `limit` wait already, the oldest one is computed first.
  void defer(Stream& stream, const Microbatch& microbatch);
  /// Computes all that wait. The input of the next one is gathered under the product of each.
  void compute_all(Stream& stream);
  std::size_t waiting() const { return count_; }

 private:
  /// The microbatch that came `place` after the oldest.
  const Microbatch& at(std::size_t place) const { return ring_[(oldest_ + place) % ring_.size()]; }
  /// Its whole input, once gather() has run.
  const Tensor& input(std::size_t place) const;
  std::unique_ptr<Work> gather(Stream& stream, std::size_t place);
  /// Computes the oldest microbatch, whose input is there, and forgets it.
  void compute_oldest(Stream& stream);

  ColumnParallelLinear& layer_;
  Target target_;
  std::vector<Microbatch> ring_;
  std::size_t oldest_ = 0;
  std::size_t count_ = 0;
  std::size_t turn_ = 0;  // which memory the oldest is gathered into
};

}  // namespace troupe::tensor
