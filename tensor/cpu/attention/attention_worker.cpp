#include "tensor/cpu/attention/attention_worker.h"

#include <algorithm>

#include "tensor/cpu/products/multiply.h"

namespace troupe::tensor {
namespace {

constexpr std::int64_t kBlockPositions = 64;
constexpr std::int64_t kKeys = 16;  // a block's first key is a multiple of it

}  // namespace

AttentionWorker::AttentionWorker(const AttentionShape& shape, Use use) : shape_(shape), use_(use) {
  if (!shape.documents)
    for (std::int64_t i = 0; i < num_blocks(shape.seq_len); ++i) prepare(block(i, shape.seq_len));
  scratch_bytes_ = lay_out(nullptr);
}

std::int64_t AttentionWorker::num_blocks(std::int64_t length) const {
  return (length + kBlockPositions - 1) / kBlockPositions;
}

QueryBlock AttentionWorker::block(std::int64_t number, std::int64_t length) const {
  const std::int64_t first = number * kBlockPositions;
  const std::int64_t positions = std::min(kBlockPositions, length - first);
  const std::int64_t hidden =
      shape_.window > 0 ? std::max<std::int64_t>(0, first + 1 - shape_.window) / kKeys * kKeys : 0;
  return {.first = first,
          .positions = positions,
          .group = shape_.heads / shape_.kv_heads,
          .head_dim = shape_.head_dim,
          .first_key = hidden,
          .columns = (shape_.causal ? first + positions : length) - hidden,
          .causal = shape_.causal,
          .window = shape_.window};
}

std::int64_t AttentionWorker::most_columns() const {
  if (shape_.window == 0) return shape_.seq_len;
  return std::min(shape_.seq_len, shape_.window + kBlockPositions + kKeys);
}

void AttentionWorker::set_scratch(void* scratch) {
  lay_out(static_cast<std::byte*>(scratch));
  for (Prepared& prepared : prepared_) {
    prepared.scores.set_scratch(product_scratch_);
    prepared.values.set_scratch(product_scratch_);
    if (prepared.keys_gradient) prepared.keys_gradient->set_scratch(product_scratch_);
  }
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
  const std::int64_t rows = block(0, shape_.seq_len).rows();  // no block has more
  const std::int64_t elements = rows * most_columns();
  const bool in_place = shape_.dtype == DType::f32;
  scores = take_floats(elements);
  probabilities = in_place ? scores : take(elements, shape_.dtype);
  values = take_floats(rows * shape_.head_dim);
  row_factors = take_floats(rows);
  if (use_ == Use::backward) {
    dprobabilities = take_floats(elements);
    dscores = in_place ? dprobabilities : take(elements, shape_.dtype);
    gradient = take(rows * shape_.head_dim, shape_.dtype);
    keys_gradient = take_floats(shape_.seq_len * shape_.head_dim);
    values_gradient = take_floats(shape_.seq_len * shape_.head_dim);
  }
  if (shape_.documents && shape_.rotary && depends_on_length(*shape_.rotary)) {
    const std::int64_t pairs = rotary_dim(*shape_.rotary, shape_.head_dim) / 2;
    cos = take_floats(shape_.seq_len * pairs);
    sin = take_floats(shape_.seq_len * pairs);
    frequencies = take_floats(pairs);
  }
  product_scratch_ = scratch ? scratch + bytes : nullptr;
  return bytes + aligned(product_bytes());
}

std::size_t AttentionWorker::product_bytes() const {
  if (shape_.documents)
    return multiply_scratch_bytes(
        scores_shape({.head_dim = shape_.head_dim, .columns = most_columns()}));
  std::size_t most = 0;
  for (const Prepared& prepared : prepared_) {
    most = std::max({most, prepared.scores.scratch_bytes(), prepared.values.scratch_bytes()});
    if (prepared.keys_gradient) most = std::max(most, prepared.keys_gradient->scratch_bytes());
  }
  return most;
}

ProductShape AttentionWorker::scores_shape(const QueryBlock& block) const {
  return {.m = block.rows(),
          .k = shape_.head_dim,
          .n = block.columns,
          .input = shape_.dtype,
          .b = Layout::transposed};
}

ProductShape AttentionWorker::values_shape(const QueryBlock& block) const {
  return {.m = block.rows(), .k = block.columns, .n = shape_.head_dim, .input = shape_.dtype};
}

ProductShape AttentionWorker::keys_shape(const QueryBlock& block) const {
  return {.m = block.columns,
          .k = block.rows(),
          .n = shape_.head_dim,
          .input = shape_.dtype,
          .a = Layout::transposed,
          .addend = Addend::destination};
}

void AttentionWorker::prepare(const QueryBlock& block) {
  constexpr int kThreads = 1;
  prepared_.push_back({.scores = {scores_shape(block), kThreads},
                       .values = {values_shape(block), kThreads},
                       .keys_gradient = std::nullopt});
  if (use_ == Use::backward) prepared_.back().keys_gradient.emplace(keys_shape(block), kThreads);
}

void AttentionWorker::multiply_keys(std::int64_t number, const QueryBlock& block, const void* rows,
                                    const void* keys, float* out) {
  if (prepared_.empty()) return multiply(scores_shape(block), rows, keys, out, product_scratch_);
  prepared_[static_cast<std::size_t>(number)].scores.run(rows, keys, out);
}

void AttentionWorker::multiply_values(std::int64_t number, const QueryBlock& block,
                                      const void* weights, const void* columns, float* out) {
  if (prepared_.empty())
    return multiply(values_shape(block), weights, columns, out, product_scratch_);
  prepared_[static_cast<std::size_t>(number)].values.run(weights, columns, out);
}

void AttentionWorker::add_to_keys(std::int64_t number, const QueryBlock& block, const void* weights,
                                  const void* rows, float* sums) {
  if (prepared_.empty()) return multiply(keys_shape(block), weights, rows, sums, product_scratch_);
  prepared_[static_cast<std::size_t>(number)].keys_gradient->run(weights, rows, sums);
}

}  // namespace troupe::tensor
