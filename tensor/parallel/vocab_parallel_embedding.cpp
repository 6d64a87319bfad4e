#include "tensor/parallel/vocab_parallel_embedding.h"

#include "tensor/parallel/division.h"

namespace troupe::tensor {

VocabParallelEmbedding::VocabParallelEmbedding(Device& device, const EmbeddingShape& whole,
                                               const TensorParallel& parallel)
    : parallel_(parallel),
      whole_(whole),
      range_(vocab_range(whole.vocabulary, parallel.size, parallel.shard)),
      ops_(device.ops()) {
  check_tokens(whole.tokens, parallel);
}

std::int64_t VocabParallelEmbedding::gathered_elements() const {
  return parallel_.splits_tokens() ? whole_.tokens * whole_.channels : 0;
}

void VocabParallelEmbedding::lookup(Stream& stream, const Tensor& ids, const Tensor& table,
                                    const Tensor& x_full) {
  // One shard has all ids: the op checks that.
  if (parallel_.size == 1) return ops_.embedding(stream, ids, table, x_full);
  ops_.embedding_range(stream, ids, range_.first, table, x_full);
}

std::unique_ptr<Work> VocabParallelEmbedding::reduce_output(Stream& stream, const Tensor& x_full,
                                                            const Tensor& x) {
  return parallel_.reduce(&TensorParallelGroups::forward, stream, x_full, x);
}

std::unique_ptr<Work> VocabParallelEmbedding::gather_output_gradient(Stream& stream,
                                                                     const Tensor& dx,
                                                                     const Tensor& dx_full) {
  return parallel_.gather_tokens(&TensorParallelGroups::backward, stream, dx, dx_full);
}

void VocabParallelEmbedding::weight_gradient(Stream& stream, const Tensor& ids,
                                             const Tensor& dx_full, const Tensor& dtable,
                                             Gradient gradient) {
  // The whole table is cleared, because most rows have no token in the microbatch.
  if (gradient == Gradient::first) ops_.fill_zero(stream, dtable);
  ops_.embedding_range_backward(stream, ids, range_.first, dx_full, dtable);
}

void VocabParallelEmbedding::forward(Stream& stream, const Tensor& ids, const Tensor& table,
                                     const Tensor& x_full, const Tensor& x) {
  lookup(stream, ids, table, x_full);
  wait(reduce_output(stream, x_full, x), stream);
}

void VocabParallelEmbedding::backward(Stream& stream, const Tensor& ids, const Tensor& dx,
                                      const Tensor& dx_full, const Tensor& dtable,
                                      Gradient gradient) {
  wait(gather_output_gradient(stream, dx, dx_full), stream);
  weight_gradient(stream, ids, dx_full, dtable, gradient);
}

}  // namespace troupe::tensor
