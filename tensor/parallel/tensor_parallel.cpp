#include "tensor/parallel/tensor_parallel.h"

#include "tensor/errors/error.h"

namespace troupe::tensor {

std::unique_ptr<Work> TensorParallel::gather_tokens(Direction direction, Stream& stream,
                                                    const Tensor& part, const Tensor& whole) const {
  if (!splits_tokens()) return nullptr;
  return (groups->*direction)->all_gather(stream, part, whole);
}

std::unique_ptr<Work> TensorParallel::reduce(Direction direction, Stream& stream, const Tensor& x,
                                             const Tensor& sum) const {
  if (size == 1) return nullptr;
  if (splits_tokens()) return (groups->*direction)->reduce_scatter(stream, x, sum);
  TROUPE_ASSERT(sum.data == x.data);
  return (groups->*direction)->all_reduce(stream, sum);
}

}  // namespace troupe::tensor
