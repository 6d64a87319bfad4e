#include "tensor/cpu/attention_worker.h"

#include <algorithm>

namespace troupe::tensor {
namespace {

constexpr std::int64_t kBlockPositions = 64;

std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

AttentionWorker::AttentionWorker(const AttentionShape& shape, Use use) : shape_(shape), use_(use) {
  const std::int64_t group = shape.heads / shape.kv_heads;
  for (std::int64_t first = 0; first < shape.seq_len; first += kBlockPositions) {
    const std::int64_t positions = std::min(kBlockPositions, shape.seq_len - first);
    add_block({.first = first,
               .positions = positions,
               .group = group,
               .head_dim = shape.head_dim,
               .columns = shape.causal ? first + positions : shape.seq_len,
               .causal = shape.causal});
  }
  scratch_bytes_ = lay_out(nullptr);
}

void AttentionWorker::set_scratch(void* scratch) {
  lay_out(static_cast<std::byte*>(scratch));
}

std::size_t AttentionWorker::lay_out(std::byte* scratch) {
  std::size_t bytes = 0;
  const auto take = [&](std::int64_t elements, DType dtype) -> void* {
    void* const data = scratch ? scratch + bytes : nullptr;
    bytes += aligned(static_cast<std::size_t>(elements) * size_of(dtype));
    return data;
  };
  const auto take_floats = [&](std::int64_t elements) {
    return static_cast<float*>(take(elements, DType::f32));
  };
  const std::int64_t rows = blocks_.front().shape.rows();  // no block has more
  const bool in_place = shape_.dtype == DType::f32;
  scores = take_floats(rows * shape_.seq_len);
  probabilities = in_place ? scores : take(rows * shape_.seq_len, shape_.dtype);
  values = take_floats(rows * shape_.head_dim);
  row_factors = take_floats(rows);
  if (use_ == Use::backward) {
    dprobabilities = take_floats(rows * shape_.seq_len);
    dscores = in_place ? dprobabilities : take(rows * shape_.seq_len, shape_.dtype);
    gradient = take(rows * shape_.head_dim, shape_.dtype);
    keys_gradient = take_floats(shape_.seq_len * shape_.head_dim);
    values_gradient = take_floats(shape_.seq_len * shape_.head_dim);
  }

  std::size_t product_bytes = 0;
  for (Block& block : blocks_) {
    Product* const keys = block.keys_gradient ? &*block.keys_gradient : nullptr;
    for (Product* product : {&block.scores, &block.values, keys}) {
      if (!product) continue;
      if (scratch) product->set_scratch(scratch + bytes);
      product_bytes = std::max(product_bytes, product->scratch_bytes());
    }
  }
  return bytes + aligned(product_bytes);
}

void AttentionWorker::add_block(const QueryBlock& block) {
  constexpr int kThreads = 1;
  const std::int64_t r = block.rows(), n = block.columns, d = shape_.head_dim;
  const ProductShape scores_shape{
      .m = r, .k = d, .n = n, .input = shape_.dtype, .b = Layout::transposed};
  const ProductShape values_shape{.m = r, .k = n, .n = d, .input = shape_.dtype};
  const ProductShape keys_shape{.m = n,
                                .k = r,
                                .n = d,
                                .input = shape_.dtype,
                                .a = Layout::transposed,
                                .addend = Addend::destination};
  blocks_.push_back({.shape = block,
                     .scores = {scores_shape, kThreads},
                     .values = {values_shape, kThreads},
                     .keys_gradient = std::nullopt});
  if (use_ == Use::backward) blocks_.back().keys_gradient.emplace(keys_shape, kThreads);
}

}  // namespace troupe::tensor
