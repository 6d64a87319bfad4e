#include "tensor/cuda/cuda_ops.h"
#include "tensor/cuda/kernels/loss_kernels.h"
#include "tensor/cuda/op_arguments.h"

namespace troupe::tensor::cuda {
namespace {

void check_logits(const Tensor& logits, const Tensor& targets) {
  TROUPE_ASSERT(logits.dtype == DType::f32 && logits.shape.rank() == 2);
  TROUPE_ASSERT(targets.dtype == DType::i32 && targets.num_elements() == logits.shape[0]);
}

void check_loss(const Tensor& loss, const Tensor& logits, const Tensor& dlogits) {
  TROUPE_ASSERT(loss.dtype == DType::f64 && loss.num_elements() == 1);
  TROUPE_ASSERT(!dlogits || dlogits.num_elements() == logits.num_elements());
  TROUPE_ASSERT(!dlogits || is_act(dlogits.dtype));
}

void check_sums(const Tensor& sums, std::int64_t rows) {
  TROUPE_ASSERT(sums.dtype == DType::f32 && sums.shape.rank() == 2 && sums.shape[1] == rows);
  TROUPE_ASSERT(sums.shape[0] == 2 || sums.shape[0] == 3);
}

/// Where each row's loss is written before all are added.
void* row_losses(Stream& stream, const Tensor& token_losses, std::int64_t rows) {
  if (!token_losses) return kernel_stream(stream).scratch(loss_scratch(rows));
  TROUPE_ASSERT(token_losses.dtype == DType::f64 && token_losses.num_elements() == rows);
  return token_losses.data;
}

VocabShard shard_of(const Tensor& logits, const VocabColumns& columns) {
  TROUPE_ASSERT(logits.dtype == DType::f32 && logits.shape.rank() == 2);
  TROUPE_ASSERT(columns.valid >= 0 && columns.valid <= logits.shape[1]);
  return {.rows = logits.shape[0],
          .columns = logits.shape[1],
          .valid = columns.valid,
          .first_class = columns.first};
}

}  // namespace

void CudaOps::cross_entropy(Stream& stream, const Tensor& logits, const Tensor& targets,
                            float scale, const Tensor& loss, const Tensor& dlogits,
                            const Tensor& token_losses) {
  check_logits(logits, targets);
  check_loss(loss, logits, dlogits);
  launch_cross_entropy({.rows = logits.shape[0],
                        .columns = logits.shape[1],
                        .logits = logits.as<float>(),
                        .targets = targets.as<std::int32_t>(),
                        .ignored = kNoTarget,
                        .scale = scale,
                        .dlogits = dlogits.data,
                        .gradient_dtype = dlogits.dtype},
                       loss.as<double>(), row_losses(stream, token_losses, logits.shape[0]),
                       handle_of(stream));
}

void CudaOps::vocab_max(Stream& stream, const Tensor& logits, std::int64_t valid,
                        const Tensor& max) {
  const VocabShard shard = shard_of(logits, {.valid = valid});
  TROUPE_ASSERT(max.dtype == DType::f32 && max.num_elements() == logits.shape[0]);
  launch_vocab_max(shard, logits.as<float>(), max.as<float>(), handle_of(stream));
}

void CudaOps::vocab_sums(Stream& stream, const Tensor& logits, const VocabColumns& columns,
                         const Tensor& targets, const Tensor& max, const Tensor& sums) {
  const VocabShard shard = shard_of(logits, columns);
  check_logits(logits, targets);
  check_sums(sums, logits.shape[0]);
  TROUPE_ASSERT(max.dtype == DType::f32 && max.num_elements() == logits.shape[0]);
  launch_vocab_sums(shard, logits.as<float>(), targets.as<std::int32_t>(), max.as<float>(),
                    sums.shape[0] == 3, sums.as<float>(), handle_of(stream));
}

void CudaOps::vocab_loss(Stream& stream, const Tensor& exponentials, const VocabColumns& columns,
                         const Tensor& targets, const Tensor& sums, const VocabLoss& loss,
                         const Tensor& sum, const Tensor& dlogits, const Tensor& token_losses) {
  const VocabShard shard = shard_of(exponentials, columns);
  check_logits(exponentials, targets);
  check_sums(sums, exponentials.shape[0]);
  check_loss(sum, exponentials, dlogits);
  TROUPE_ASSERT(loss.smoothing == 0 || sums.shape[0] == 3);
  launch_vocab_loss({.shard = shard,
                     .exponentials = exponentials.as<float>(),
                     .targets = targets.as<std::int32_t>(),
                     .sums = sums.as<float>(),
                     .classes = loss.classes,
                     .smoothing = loss.smoothing,
                     .ignored = loss.ignored,
                     .scale = loss.scale,
                     .dlogits = dlogits.data,
                     .gradient_dtype = dlogits.dtype},
                    sum.as<double>(), row_losses(stream, token_losses, shard.rows),
                    handle_of(stream));
}

}  // namespace troupe::tensor::cuda
