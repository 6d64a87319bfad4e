#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "tensor/cuda/attention/cudnn_plan.h"

namespace troupe::tensor::cuda {

/// The plans of one device, each made once: making one takes about a second, and layers of a model
/// have one shape. Used by one thread at a time.
class CudnnPlans {
 public:
  using Tell = std::function<void(const std::string&)>;

  /// `deterministic` as for CudnnPlan::make(). What a user should know is given to `tell`.
  CudnnPlans(bool deterministic, Tell tell)
      : deterministic_(deterministic), tell_(std::move(tell)) {}

  struct Both {
    std::shared_ptr<CudnnPlan> forward, backward;
  };
  /// Both plans for the shape, or none: if cuDNN is not there, if it is known not to serve the
  /// shape anywhere (attention_choice.h), or if it refuses it on this GPU, which is told the first
  /// time, with its reason, because our own kernels are slower. Throws Error{internal} if cuDNN
  /// fails.
  Both find(const AttentionShape& shape);

 private:
  const bool deterministic_;
  const Tell tell_;
  std::map<std::string, Both> made_;  // by what a plan depends on
};

}  // namespace troupe::tensor::cuda
