#pragma once

#include <functional>
#include <string>

#include "tensor/cuda/attention/cudnn_plan.h"

namespace troupe::test {

/// cuDNN for machines without a GPU, linked in its place: of its plans those for documents alone
/// run, on the emulated grid (document_plan.h). Used by one thread at a time.
class HostCudnn {
 public:
  /// A cuDNN that is there and serves every shape.
  static HostCudnn& reset();
  static HostCudnn& get();

  using Refusal = std::function<std::string(const tensor::AttentionShape& shape,
                                            tensor::cuda::AttentionPass pass, bool deterministic)>;
  bool there = true;
  int plans = 0;    ///< that were asked for
  int runs = 0;     ///< of plans for documents
  Refusal refusal;  ///< what it says to a shape; empty, or none: it serves it
};

}  // namespace troupe::test
