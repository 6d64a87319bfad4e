#pragma once

#include "tensor/device/ops.h"
#include "tensor/device/process_group.h"

namespace troupe::tensor {

/// What lies between a row-parallel product and the column-parallel one after it, for n shards that
/// each keep T/n of the T tokens of the residual stream, in ascending shard order (Megatron-core's
/// inference_layers): reduce-scatter, bias and residual, norm, all-gather. "act" is one of float32
/// and bfloat16, the same for all.
struct ReduceNormGather {
  Tensor partial;   // [T, C]   act  the shard's part of a sum over shards; overwritten
  Tensor bias;      // [C]      f32  of the product; empty: none
  Tensor residual;  // [T/n, C] act  the shard's tokens
  Tensor sum;       // [T/n, C] act  receives sum + bias + residual; may be the shard's of partial
  Tensor weight;    // [C]      f32  of the norm; empty: there is none
  Tensor shift;     // [C]      f32  its bias, of a LayerNorm; empty: it is an RMSNorm
  float eps = 0;
  float plus = 0;  // what is added to the weights of an RMSNorm, as in Ops::rms_norm()
  Tensor mean;     // [T/n]    f32  receives what norms keep; empty for an RMSNorm
  Tensor rstd;     // [T/n]    f32
  Tensor normed;   // [T, C]   act  receives norm(sum) of all tokens
};

/// Runs it on the stream, by ops that stand for themselves: the bits are those of an all-reduce,
/// bias and residual, and the norm of all tokens, on every shard, because groups add in an order
/// that depends on neither the operation nor the size, and rows do not influence each other.
void reduce_norm_gather(Stream& stream, Ops& ops, ProcessGroup& shards, const ReduceNormGather& x);

}  // namespace troupe::tensor
