#include "tensor/cpu/attention_worker.h"

#include <algorithm>

namespace troupe::tensor {
namespace {

constexpr std::int64_t kBlockPositions = 64;

}  // namespace

AttentionWorker::AttentionWorker(Device& device, const AttentionShape& shape) {
  const std::int64_t group = shape.heads / shape.kv_heads;
  for (std::int64_t first = 0; first < shape.seq_len; first += kBlockPositions) {
    const std::int64_t positions = std::min(kBlockPositions, shape.seq_len - first);
    add_block(shape, {first, positions, group, shape.head_dim});
  }
  const auto take_bytes = [&](std::size_t bytes) {
    return memory_.emplace_back(device.allocate(bytes, MemoryKind::host)).data();
  };
  const auto take = [&](std::int64_t elements, DType dtype) {
    return take_bytes(static_cast<std::size_t>(elements) * size_of(dtype));
  };
  const auto take_floats = [&](std::int64_t elements) {
    return static_cast<float*>(take(elements, DType::f32));
  };
  const std::int64_t rows = blocks_.front().shape.rows();  // the most of all blocks
  const bool in_place = shape.dtype == DType::f32;
  scores = take_floats(rows * shape.seq_len);
  dprobabilities = take_floats(rows * shape.seq_len);
  probabilities = in_place ? scores : take(rows * shape.seq_len, shape.dtype);
  dscores = in_place ? dprobabilities : take(rows * shape.seq_len, shape.dtype);
  values = take_floats(rows * shape.head_dim);
  gradient = take(rows * shape.head_dim, shape.dtype);
  row_factors = take_floats(rows);
  keys_gradient = take_floats(shape.seq_len * shape.head_dim);
  values_gradient = take_floats(shape.seq_len * shape.head_dim);

  std::size_t scratch_bytes = 0;
  for (const Block& block : blocks_) {
    for (const Product* product : {&block.scores, &block.values, &block.keys_gradient}) {
      scratch_bytes = std::max(scratch_bytes, product->scratch_bytes());
    }
  }
  void* scratch = take_bytes(scratch_bytes);
  for (Block& block : blocks_) {
    for (Product* product : {&block.scores, &block.values, &block.keys_gradient}) {
      product->set_scratch(scratch);
    }
  }
}

void AttentionWorker::add_block(const AttentionShape& shape, const QueryBlock& block) {
  constexpr int kThreads = 1;
  const std::int64_t r = block.rows(), n = block.columns(), d = shape.head_dim;
  const ProductShape scores_shape{
      .m = r, .k = d, .n = n, .input = shape.dtype, .b = Layout::transposed};
  const ProductShape values_shape{.m = r, .k = n, .n = d, .input = shape.dtype};
  const ProductShape keys_shape{.m = n,
                                .k = r,
                                .n = d,
                                .input = shape.dtype,
                                .a = Layout::transposed,
                                .addend = Addend::destination};
  blocks_.push_back({.shape = block,
                     .scores = {scores_shape, kThreads},
                     .values = {values_shape, kThreads},
                     .keys_gradient = {keys_shape, kThreads}});
}

}  // namespace troupe::tensor
