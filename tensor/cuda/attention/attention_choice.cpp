#include "tensor/cuda/attention/attention_choice.h"

#include <algorithm>

namespace troupe::tensor::cuda {

bool cudnn_serves(const AttentionShape& shape) {
  return shape.dtype == DType::bf16 && shape.head_dim % 8 == 0 && shape.head_dim <= 256 &&
         shape.mask == Mask::none && !shape.hides_keys() && shape.cap == 0;
}

std::int64_t most_documents(const AttentionShape& shape) {
  constexpr std::int64_t kTile = 128;
  return shape.batch * std::max<std::int64_t>(2, shape.seq_len / kTile);
}

}  // namespace troupe::tensor::cuda
