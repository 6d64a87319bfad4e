#include "tensor/cuda/attention/cudnn_plan.h"
#include "tensor/errors/error.h"

// In the place of cudnn_plan.cpp in a build without cuDNN's frontend.

namespace troupe::tensor::cuda {

CudnnPlan::Made CudnnPlan::make(const AttentionShape&, AttentionPass, bool, const DescribedGpu*) {
  assert_failed("is_there()", __FILE__, __LINE__);
}

bool CudnnPlan::is_there() {
  return false;
}

}  // namespace troupe::tensor::cuda
