#include "tensor/cuda/attention/kernel_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "tensor/cuda/kernels/attention/rotary_kernels.h"
#include "tensor/errors/error.h"

namespace troupe::tensor::cuda {
namespace {

const AttentionShape& checked(const AttentionShape& s) {
  check(s);
  check_head_dim(s.head_dim);
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

void check_head_dim(std::int64_t head_dim) {
  if (head_dim <= kMostHeadDim) return;
  throw Error(ErrorKind::manifest,
              fmt::format("head size {}; attention on a GPU has kernels for head sizes up to {}",
                          head_dim, kMostHeadDim));
}

std::int64_t padded_width(DType dtype, std::int64_t head_dim) {
  const auto elements = static_cast<std::int64_t>(16 / size_of(dtype));
  return (head_dim + elements - 1) / elements * elements;
}

KernelAttention::KernelAttention(const AttentionShape& shape, KernelStream& preparation)
    : shape_(checked(shape)),
      preparation_(preparation),
      rotary_dim_(shape.rotary ? tensor::rotary_dim(*shape.rotary, shape.head_dim) : 0) {}

std::int64_t KernelAttention::angles() const {
  return (shape_.documents ? tokens() : shape_.seq_len) * (rotary_dim_ / 2);
}

std::int64_t KernelAttention::lengths() const {
  if (!shape_.documents || !shape_.rotary) return 0;
  if (!depends_on_length(*shape_.rotary)) return 1;
  const std::int64_t longer = shape_.seq_len - shape_.rotary->original_max_position_embeddings;
  const std::int64_t most = shape_.rotary->type == RotaryType::longrope ? 1 : longer;
  return 1 + std::clamp<std::int64_t>(longer, 0, most);
}

std::int64_t KernelAttention::saved_elements() const {
  return tokens() * (shape_.heads + 2 * shape_.kv_heads) *
         padded_width(shape_.dtype, shape_.head_dim);
}

ScratchBytes KernelAttention::scratch_bytes() const {
  const std::int64_t frequencies = lengths() * (rotary_dim_ / 2);
  const std::int64_t tables = shape_.documents ? 2 * angles() : 0;
  return {.forward = static_cast<std::size_t>(2 * angles() + frequencies) * sizeof(float),
          .backward = static_cast<std::size_t>(tables + tokens() * shape_.heads) * sizeof(float)};
}

void KernelAttention::set_scratch(const Scratch& scratch) {
  auto* const forward = static_cast<float*>(scratch.forward);
  auto* const backward = static_cast<float*>(scratch.backward);
  forward_ = {.cos = forward, .sin = forward + angles()};
  frequencies_ = forward + 2 * angles();
  delta_ = backward;
  if (shape_.documents && backward) {
    backward_ = {.cos = backward, .sin = backward + angles()};
    delta_ = backward + 2 * angles();
  }
  if (!shape_.rotary) return;
  fill_frequencies();
  preparation_.synchronize();
}

/// Fills what calls with documents compute their tables from, or else the tables of all calls.
void KernelAttention::fill_frequencies() {
  RotaryFrequencies frequencies{.inverse = {}, .scaling = attention_scaling(*shape_.rotary)};
  const std::int64_t pairs = rotary_dim_ / 2;
  const std::span inverse(frequencies.inverse, static_cast<std::size_t>(pairs));
  if (!shape_.documents) {
    inverse_frequencies(*shape_.rotary, shape_.seq_len, inverse);
    return launch_rotation_tables(shape_.seq_len, rotary_dim_, frequencies, forward_.cos,
                                  forward_.sin, preparation_.handle());
  }
  for (std::int64_t i = 0; i < lengths(); ++i) {
    inverse_frequencies(*shape_.rotary, shape_.rotary->original_max_position_embeddings + i,
                        inverse);
    launch_frequencies(rotary_dim_, frequencies, frequencies_ + i * pairs, preparation_.handle());
  }
}

KernelAttention::Tables KernelAttention::tables_of(const AttentionCall& call, const Tables& memory,
                                                   std::int64_t tokens, Stream& stream) const {
  if (!shape_.rotary) return {};
  if (!shape_.documents) return forward_;
  launch_document_tables({.starts = call.documents.as<std::int32_t>(),
                          .documents = static_cast<int>(call.documents.num_elements() - 1),
                          .rotary_dim = rotary_dim_,
                          .inverse = frequencies_,
                          .first = shape_.rotary->original_max_position_embeddings,
                          .lengths = lengths(),
                          .scaling = attention_scaling(*shape_.rotary)},
                         tokens, memory.cos, memory.sin, handle_of(stream));
  return memory;
}

void KernelAttention::save(Stream& stream, const Tensor& qkv, const Tensor& saved,
                           const AttentionCall& call, Order order) {
  const std::int64_t count = rows_of(shape_, qkv, shape_.columns());
  TROUPE_ASSERT(saved.dtype == shape_.dtype && saved.num_elements() == saved_elements());
  const Tables tables = tables_of(call, forward_, count, stream);
  launch_save_heads(shape_.dtype,
                    {.batch = batch(),
                     .seq_len = count / batch(),
                     .heads = shape_.heads,
                     .kv_heads = shape_.kv_heads,
                     .head_dim = shape_.head_dim,
                     .saved_width = padded_width(shape_.dtype, shape_.head_dim),
                     .qkv = qkv.data,
                     .saved = saved.data,
                     .by_token = order == Order::by_token,
                     .cos = tables.cos,
                     .sin = tables.sin,
                     .rotary_dim = rotary_dim_},
                    handle_of(stream));
}

void KernelAttention::rotate_back(Stream& stream, const Tensor& dqkv, const AttentionCall& call) {
  const std::int64_t count = rows_of(shape_, dqkv, shape_.columns());
  if (!shape_.rotary) return;
  const Tables tables = tables_of(call, backward_, count, stream);
  launch_rotate_back(shape_.dtype,
                     {.batch = batch(),
                      .seq_len = count / batch(),
                      .heads = shape_.heads,
                      .kv_heads = shape_.kv_heads,
                      .head_dim = shape_.head_dim,
                      .dqkv = dqkv.data,
                      .cos = tables.cos,
                      .sin = tables.sin,
                      .rotary_dim = rotary_dim_},
                     handle_of(stream));
}

void KernelAttention::clear_padding(Stream& stream, const Tensor& x, std::int64_t heads,
                                    const AttentionCall& call) {
  AttentionArguments rows;
  rows.seq_len = static_cast<int>(x.num_elements() / (heads * shape_.head_dim));
  rows.head_dim = static_cast<int>(shape_.head_dim);
  rows.starts = call.documents.as<std::int32_t>();
  rows.documents = static_cast<int>(call.documents.num_elements() - 1);
  launch_clear_padding(shape_.dtype, rows, x.data, heads, handle_of(stream));
}

void KernelAttention::forward(Stream& stream, const Tensor& qkv, const Tensor& saved,
                              const Tensor& lse, const Tensor& out, const AttentionCall& call) {
  save(stream, qkv, saved, call);
  recompute(stream, saved, lse, out, call);
}

void KernelAttention::recompute(Stream& stream, const Tensor& saved, const Tensor& lse,
                                const Tensor& out, const AttentionCall& call) {
  const AttentionArguments x = arguments(saved, lse, out, call);
  launch_attention_forward(shape_.dtype, x, handle_of(stream));
  if (shape_.documents) clear_padding(stream, out, shape_.heads, call);
}

void KernelAttention::backward(Stream& stream, const Tensor& saved, const Tensor& lse,
                               const Tensor& out, const Tensor& dout, const Tensor& dqkv,
                               const AttentionCall& call) {
  TROUPE_ASSERT(dout.dtype == shape_.dtype && dout.num_elements() == out.num_elements());
  const std::int64_t count = rows_of(shape_, dqkv, shape_.columns());
  TROUPE_ASSERT(delta_);
  const Tables tables = tables_of(call, backward_, count, stream);
  AttentionArguments x = arguments(saved, lse, out, call);
  x.dout = dout.data;
  x.delta = delta_;
  x.dqkv = dqkv.data;
  x.cos = tables.cos;
  x.sin = tables.sin;
  x.rotary_dim = static_cast<int>(rotary_dim_);
  launch_attention_delta(shape_.dtype, x, handle_of(stream));
  launch_attention_key_gradients(shape_.dtype, x, handle_of(stream));
  launch_attention_query_gradients(shape_.dtype, x, handle_of(stream));
  if (shape_.documents) clear_padding(stream, dqkv, shape_.heads + 2 * shape_.kv_heads, call);
}

AttentionArguments KernelAttention::arguments(const Tensor& saved, const Tensor& lse,
                                              const Tensor& out, const AttentionCall& call) const {
  check(shape_, call);
  const std::int64_t s = shape_.seq_len,
                     count = rows_of(shape_, out, shape_.heads * shape_.head_dim);
  TROUPE_ASSERT(saved.dtype == shape_.dtype && saved.num_elements() == saved_elements());
  TROUPE_ASSERT(lse.dtype == DType::f32 && lse.num_elements() == count * shape_.heads);
  AttentionArguments x{
      .batch = static_cast<int>(batch()),
      .seq_len = static_cast<int>(count / batch()),
      .heads = static_cast<int>(shape_.heads),
      .kv_heads = static_cast<int>(shape_.kv_heads),
      .head_dim = static_cast<int>(shape_.head_dim),
      .starts = call.documents.as<std::int32_t>(),
      .documents = shape_.documents ? static_cast<int>(call.documents.num_elements() - 1) : 0,
      .saved_width = static_cast<int>(padded_width(shape_.dtype, shape_.head_dim)),
      .causal = shape_.causal,
      .window = shape_.hides_keys() ? static_cast<int>(shape_.window) : 0,
      .scale = score_scale(shape_.scale, shape_.head_dim),
      .cap = shape_.cap,
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
                 .token_stride = static_cast<std::uint64_t>(s),
                 .run = static_cast<int>(call.run),
                 .gap = static_cast<int>(call.gap),
                 .threshold = call.dropout.threshold(),
                 .scale = call.dropout.scale()};
  }
  return x;
}

}  // namespace troupe::tensor::cuda
