#include "tensor/cuda/attention/attention_choice.h"

namespace troupe::tensor::cuda {

bool cudnn_serves(const AttentionShape& shape) {
  return shape.dtype == DType::bf16 && shape.head_dim % 8 == 0 && shape.head_dim <= 256 &&
         shape.mask == Mask::none && !shape.documents;
}

}  // namespace troupe::tensor::cuda
