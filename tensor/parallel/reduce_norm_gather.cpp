#include "tensor/parallel/reduce_norm_gather.h"

#include "tensor/errors/error.h"
#include "tensor/parallel/division.h"

namespace troupe::tensor {

void reduce_norm_gather(Stream& stream, Ops& ops, ProcessGroup& shards, const ReduceNormGather& x) {
  const std::int64_t tokens = x.sum.shape[0];
  TROUPE_ASSERT(x.partial.shape[0] == tokens * shards.size() && x.normed.shape == x.partial.shape);
  shards.reduce_scatter(stream, x.partial, x.sum)->wait(stream);
  if (x.bias)
    ops.add_bias(stream, x.bias, x.sum, x.residual);
  else
    ops.accumulate(stream, x.residual, x.sum);
  Tensor own = row_view(x.normed, shards.member() * tokens, tokens);
  if (x.shift)
    ops.layer_norm(stream, x.sum, x.weight, x.shift, x.eps, own, x.mean, x.rstd);
  else if (x.weight)
    ops.rms_norm(stream, x.sum, x.weight, x.eps, x.plus, own, x.rstd);
  else
    own = x.sum;
  shards.all_gather(stream, own, x.normed)->wait(stream);
}

}  // namespace troupe::tensor
