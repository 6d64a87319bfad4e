#pragma once

#include "tests/tensor/attention_run.h"

namespace troupe::tensor {

using Lengths = std::vector<std::int64_t>;

/// The bounds of documents of these lengths, side by side.
inline std::vector<std::int32_t> starts_of(const Lengths& lengths) {
  std::vector<std::int32_t> starts{0};
  for (const std::int64_t length : lengths)
    starts.push_back(starts.back() + static_cast<std::int32_t>(length));
  return starts;
}

inline Values rows_of(const Tensor& x, std::int64_t first, std::int64_t count) {
  const Values all = Host::read(x);
  const std::int64_t row = x.shape[1];
  return {all.begin() + first * row, all.begin() + (first + count) * row};
}

/// Runs documents of these lengths and `padding` rows after them. `attention` is for the shape and
/// has its memory.
inline AttentionRun run_documents(Host& host, Attention& attention, const AttentionShape& shape,
                                  const Lengths& lengths, std::int64_t padding = 0,
                                  AttentionCall call = {}) {
  const auto starts = starts_of(lengths);
  const std::int64_t rows = starts.back() + padding, d = shape.head_dim;
  call.documents = host.ids(starts);
  return run_attention(
      host, attention, shape,
      host.normal(shape.dtype, {rows, (shape.heads + 2 * shape.kv_heads) * d}, "qkv"),
      host.normal(shape.dtype, {rows, shape.heads * d}, "dout"), call);
}

inline AttentionRun run_documents(Host& host, const AttentionShape& shape, const Lengths& lengths,
                                  std::int64_t padding = 0) {
  const auto attention = host.device().make_attention(shape);
  host.give_scratch(*attention);
  return run_documents(host, *attention, shape, lengths, padding);
}

/// Compares each document with the reference for it alone, and padding with zeros.
inline void check_documents(const AttentionRun& run, AttentionShape shape, const Lengths& lengths) {
  const double tolerance = tolerance_of(shape.dtype);
  std::int64_t first = 0;
  shape.batch = 1;
  for (const std::int64_t length : lengths) {
    shape.seq_len = length;
    const reference::AttentionDims dims = dims_of(shape);
    const Values qkv = rows_of(run.qkv, first, length);
    check_near(rows_of(run.out, first, length), reference::attention(qkv, dims).out, tolerance);
    check_near(rows_of(run.dqkv, first, length),
               reference::attention_backward(rows_of(run.dout, first, length), qkv, dims),
               2 * tolerance);
    first += length;
  }
  for (const Tensor* x : {&run.out, &run.dqkv}) {
    const Values padding = rows_of(*x, first, x->shape[0] - first);
    BOOST_TEST((padding == Values(padding.size(), 0.0)));
  }
}

}  // namespace troupe::tensor
