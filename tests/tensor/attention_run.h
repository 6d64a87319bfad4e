#pragma once

#include "tests/tensor/host.h"

namespace troupe::tensor {

/// What one forward and one backward of attention read and give.
struct AttentionRun {
  Tensor qkv, dout, out, lse, dqkv;
};

/// `qkv` and `dout` are of the shape's sizes and dtype, `attention` is for it and has its memory.
inline AttentionRun run_attention(Host& host, Attention& attention, const AttentionShape& shape,
                                  const Tensor& qkv, const Tensor& dout,
                                  const AttentionCall& call) {
  AttentionRun r{qkv, dout, host.output(shape.dtype, dout.shape),
                 host.output(DType::f32, {dout.shape[0] * shape.heads}),
                 host.output(shape.dtype, qkv.shape)};
  const Tensor saved = host.output(shape.dtype, {attention.saved_elements()});
  attention.forward(host.stream(), r.qkv, saved, r.lse, r.out, call);
  attention.backward(host.stream(), saved, r.lse, r.out, r.dout, r.dqkv, call);
  return r;
}

inline AttentionRun run_attention(Host& host, const AttentionShape& shape, const Tensor& qkv,
                                  const Tensor& dout, const AttentionCall& call) {
  const auto attention = host.device().make_attention(shape);
  host.give_scratch(*attention);
  return run_attention(host, *attention, shape, qkv, dout, call);
}

inline AttentionRun run_attention(Host& host, const AttentionShape& shape,
                                  const AttentionCall& call = {}, double stddev = 1) {
  const std::int64_t rows = shape.batch * shape.seq_len, d = shape.head_dim;
  const Shape qkv{rows, (shape.heads + 2 * shape.kv_heads) * d}, dout{rows, shape.heads * d};
  return run_attention(host, shape, host.normal(shape.dtype, qkv, "qkv", stddev),
                       host.normal(shape.dtype, dout, "dout"), call);
}

/// The reference's dims of the shape, still without a mask.
inline reference::AttentionDims dims_of(const AttentionShape& s) {
  const auto index = [](std::int64_t x) { return static_cast<std::size_t>(x); };
  return {.batch = index(s.batch),
          .seq_len = index(s.seq_len),
          .heads = index(s.heads),
          .kv_heads = index(s.kv_heads),
          .head_dim = index(s.head_dim),
          .rotary = s.rotary,
          .causal = s.causal,
          .window = index(s.window),
          .scale = s.scale,
          .cap = s.cap};
}

/// Compares log-sum-exps, of which some are -inf.
inline void check_lse(const Tensor& lse, Values expected, double tolerance) {
  Values got = Host::read(lse);
  for (std::size_t i = 0; i < got.size(); ++i) {
    BOOST_REQUIRE_EQUAL(std::isinf(got[i]), std::isinf(expected[i]));
    if (std::isinf(expected[i])) got[i] = expected[i] = 0;
  }
  check_near(got, expected, tolerance);
}

inline void check_against_reference(const AttentionRun& run, const reference::AttentionDims& dims,
                                    double tolerance) {
  const Values qkv = Host::read(run.qkv);
  const reference::AttentionResult expected = reference::attention(qkv, dims);
  check_near(run.out, expected.out, tolerance);
  check_lse(run.lse, expected.lse, tolerance);
  check_near(run.dqkv, reference::attention_backward(Host::read(run.dout), qkv, dims),
             2 * tolerance);
}

}  // namespace troupe::tensor
