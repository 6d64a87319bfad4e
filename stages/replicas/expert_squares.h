#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stages/stage/stage.h"
#include "tensor/device/device.h"
#include "tensor/device/process_group.h"

namespace troupe::stages {

/// Squared norms of the gradients of experts that replicas share out. Each replica has those of its
/// own, which alone would leave most of the model's experts out of the norm.
class ExpertSquares {
 public:
  /// `replicas`: the group of whole sets of `ep` neighbours that share the experts out. All
  /// references outlive it.
  ExpertSquares(const Stage& stage, tensor::ProcessGroup& replicas, int ep, tensor::Device& device);
  /// Bytes that it allocates for so many parameters of experts and so many replicas.
  static std::int64_t bytes(std::size_t num_parameters, int replicas);
  std::int64_t allocated() const { return static_cast<std::int64_t>(gathered_.bytes()); }
  /// Gives each parameter of an expert the sum of squares of all that lie in its place on the
  /// neighbours, in their order, so that the sum over a stage's parameters has every expert once,
  /// and the same bits on each replica. Blocks until all replicas have called it.
  void add(tensor::Stream& stream, std::span<double> squares) const;

 private:
  tensor::ProcessGroup& replicas_;
  const int ep_;
  std::vector<std::size_t> experts_;  // numbers of the parameters
  const tensor::Buffer gathered_;     // pinned: by replica
};

}  // namespace troupe::stages
