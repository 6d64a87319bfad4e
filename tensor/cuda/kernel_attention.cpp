#include "tensor/cuda/kernel_attention.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <span>

#include "tensor/cuda/kernels/rotary_kernels.h"
#include "tensor/cuda/op_arguments.h"
#include "tensor/error.h"

namespace troupe::tensor::cuda {
namespace {

constexpr std::size_t kRowAlignment = 16;

AttentionShape checked(const AttentionShape& s) {
  check(s);
  if (s.head_dim > kMostHeadDim) {
    throw Error(ErrorKind::manifest,
                fmt::format("head size {}; attention on a GPU has kernels for head sizes up to {}",
                            s.head_dim, kMostHeadDim));
  }
  constexpr std::int64_t kMostRows = std::numeric_limits<int>::max();  // a kernel's int counts them
  if (s.batch > kMostRows / s.seq_len / (s.heads + 2 * s.kv_heads)) {
    throw Error(ErrorKind::manifest,
                fmt::format("attention over {} sequences of {} tokens with {} + 2 x {} heads; on a "
                            "GPU the product must be at most {}",
                            s.batch, s.seq_len, s.heads, s.kv_heads, kMostRows));
  }
  return s;
}

}  // namespace

KernelAttention::KernelAttention(const AttentionShape& shape, KernelStream& preparation)
    : shape_(checked(shape)), preparation_(preparation) {}

std::int64_t KernelAttention::columns() const {
  return (shape_.heads + 2 * shape_.kv_heads) * shape_.head_dim;
}

std::int64_t KernelAttention::saved_width() const {
  const auto elements = static_cast<std::int64_t>(kRowAlignment / size_of(shape_.dtype));
  return (shape_.head_dim + elements - 1) / elements * elements;
}

std::int64_t KernelAttention::angles() const {
  return shape_.rotary ? shape_.seq_len * (shape_.head_dim / 2) : 0;
}

std::int64_t KernelAttention::saved_elements() const {
  return tokens() * (shape_.heads + 2 * shape_.kv_heads) * saved_width();
}

ScratchBytes KernelAttention::scratch_bytes() const {
  return {.forward = static_cast<std::size_t>(2 * angles()) * sizeof(float),
          .backward = static_cast<std::size_t>(tokens() * shape_.heads) * sizeof(float)};
}

void KernelAttention::set_scratch(const Scratch& scratch) {
  rotation_ = static_cast<float*>(scratch.forward);
  delta_ = static_cast<float*>(scratch.backward);
  if (!shape_.rotary) return;
  RotaryFrequencies frequencies{.inverse = {}, .scaling = attention_scaling(*shape_.rotary)};
  const auto pairs = static_cast<std::size_t>(shape_.head_dim / 2);
  inverse_frequencies(*shape_.rotary, shape_.seq_len, std::span(frequencies.inverse, pairs));
  launch_rotation_tables(shape_.seq_len, shape_.head_dim, frequencies, rotation_,
                         rotation_ + angles(), preparation_.handle());
  preparation_.synchronize();
}

void KernelAttention::save(Stream& stream, const Tensor& qkv, const Tensor& saved) {
  TROUPE_ASSERT(qkv.dtype == shape_.dtype && qkv.num_elements() == tokens() * columns());
  TROUPE_ASSERT(saved.dtype == shape_.dtype && saved.num_elements() == saved_elements());
  launch_save_heads(shape_.dtype,
                    {.batch = shape_.batch,
                     .seq_len = shape_.seq_len,
                     .heads = shape_.heads,
                     .kv_heads = shape_.kv_heads,
                     .head_dim = shape_.head_dim,
                     .saved_width = saved_width(),
                     .qkv = qkv.data,
                     .saved = saved.data,
                     .cos = cos(),
                     .sin = sin()},
                    handle_of(stream));
}

void KernelAttention::rotate_back(Stream& stream, const Tensor& dqkv) {
  TROUPE_ASSERT(dqkv.dtype == shape_.dtype && dqkv.num_elements() == tokens() * columns());
  if (!shape_.rotary) return;
  launch_rotate_back(shape_.dtype,
                     {.batch = shape_.batch,
                      .seq_len = shape_.seq_len,
                      .heads = shape_.heads,
                      .kv_heads = shape_.kv_heads,
                      .head_dim = shape_.head_dim,
                      .dqkv = dqkv.data,
                      .cos = cos(),
                      .sin = sin()},
                     handle_of(stream));
}

void KernelAttention::forward(Stream& stream, const Tensor& qkv, const Tensor& saved,
                              const Tensor& lse, const Tensor& out, const AttentionCall& call) {
  save(stream, qkv, saved);
  recompute(stream, saved, lse, out, call);
}

void KernelAttention::recompute(Stream& stream, const Tensor& saved, const Tensor& lse,
                                const Tensor& out, const AttentionCall& call) {
  launch_attention_forward(shape_.dtype, arguments(saved, lse, out, call), handle_of(stream));
}

void KernelAttention::backward(Stream& stream, const Tensor& saved, const Tensor& lse,
                               const Tensor& out, const Tensor& dout, const Tensor& dqkv,
                               const AttentionCall& call) {
  TROUPE_ASSERT(dout.dtype == shape_.dtype && dout.num_elements() == out.num_elements());
  TROUPE_ASSERT(dqkv.dtype == shape_.dtype && dqkv.num_elements() == tokens() * columns());
  TROUPE_ASSERT(delta_);
  AttentionArguments x = arguments(saved, lse, out, call);
  x.dout = dout.data;
  x.delta = delta_;
  x.dqkv = dqkv.data;
  x.cos = cos();
  x.sin = sin();
  launch_attention_delta(shape_.dtype, x, handle_of(stream));
  launch_attention_key_gradients(shape_.dtype, x, handle_of(stream));
  launch_attention_query_gradients(shape_.dtype, x, handle_of(stream));
}

AttentionArguments KernelAttention::arguments(const Tensor& saved, const Tensor& lse,
                                              const Tensor& out, const AttentionCall& call) const {
  check(shape_, call);
  const std::int64_t s = shape_.seq_len;
  TROUPE_ASSERT(saved.dtype == shape_.dtype && saved.num_elements() == saved_elements());
  TROUPE_ASSERT(out.dtype == shape_.dtype &&
                out.num_elements() == tokens() * shape_.heads * shape_.head_dim);
  TROUPE_ASSERT(lse.dtype == DType::f32 && lse.num_elements() == tokens() * shape_.heads);
  AttentionArguments x{.batch = static_cast<int>(shape_.batch),
                       .seq_len = static_cast<int>(s),
                       .heads = static_cast<int>(shape_.heads),
                       .kv_heads = static_cast<int>(shape_.kv_heads),
                       .head_dim = static_cast<int>(shape_.head_dim),
                       .saved_width = static_cast<int>(saved_width()),
                       .causal = shape_.causal,
                       .scale = static_cast<float>(1 / std::sqrt(double(shape_.head_dim))),
                       .mask = call.mask.as<float>(),
                       .mask_batch_stride = shape_.mask == Mask::keys ? s : 0,
                       .mask_query_stride = shape_.mask == Mask::pairs ? s : 0,
                       .dropout = {},
                       .saved = saved.data,
                       .lse = lse.as<float>(),
                       .out = out.data};
  if (call.dropout.p > 0) {
    const std::int64_t sequences = call.sequences > 0 ? call.sequences : shape_.batch;
    const std::int64_t first = shape_.first_head * sequences + call.first_sequence;
    x.dropout = {.key = call.dropout.key,
                 .first = static_cast<std::uint64_t>(first * s * s),
                 .head_stride = static_cast<std::uint64_t>(sequences * s * s),
                 .threshold = call.dropout.threshold(),
                 .scale = call.dropout.scale()};
  }
  return x;
}

}  // namespace troupe::tensor::cuda
