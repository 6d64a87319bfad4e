#include "tensor/device/attention.h"

#include <fmt/format.h>

#include <cmath>

#include "tensor/errors/error.h"

namespace troupe::tensor {
namespace {

void check_heads(std::int64_t heads, std::int64_t kv_heads) {
  if (heads % kv_heads == 0) return;
  throw Error(ErrorKind::manifest,
              fmt::format("{} heads cannot share {} key-value heads; a divisor of {} is needed",
                          heads, kv_heads, heads));
}

void check_dtype(DType dtype) {
  if (dtype == DType::f32 || dtype == DType::bf16) return;
  throw Error(ErrorKind::manifest,
              fmt::format("attention in {}; use float32 or bfloat16", name_of(dtype)));
}

/// Of either kind of shape.
template <typename Shape>
void check_scores(const Shape& s) {
  const auto is_number = [](float x) { return x >= 0 && std::isfinite(x); };
  if (s.window >= 0 && is_number(s.scale) && is_number(s.cap)) return;
  throw Error(ErrorKind::manifest,
              fmt::format("attention with window {}, scale {} and soft cap {}; none may be "
                          "negative or infinite, and 0 stands for none given",
                          s.window, s.scale, s.cap));
}

}  // namespace

float score_scale(float scale, std::int64_t head_dim) {
  return scale > 0 ? scale : static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)));
}

const AttentionShape& check(const AttentionShape& s) {
  if (s.batch < 1 || s.seq_len < 1 || s.heads < 1 || s.kv_heads < 1 || s.head_dim < 2) {
    throw Error(ErrorKind::manifest,
                fmt::format("attention over batch {}, sequence {}, {} heads, {} key-value heads, "
                            "head size {}; each must be at least 1, the head size at least 2",
                            s.batch, s.seq_len, s.heads, s.kv_heads, s.head_dim));
  }
  check_heads(s.heads, s.kv_heads);
  if (s.rotary) {
    if (const FieldFault why = check_rotary(*s.rotary, s.head_dim); !why.empty())
      throw Error(ErrorKind::manifest, "attention: " + why.sentence);
  }
  check_dtype(s.dtype);
  check_scores(s);
  if (s.window > 0 && !s.causal)
    throw Error(ErrorKind::manifest,
                fmt::format("attention with window {} that sees later keys; a window needs causal",
                            s.window));
  if (s.mask != Mask::none && (s.window > 0 || s.cap > 0))
    throw Error(ErrorKind::manifest, "attention with a mask has neither a window nor a soft cap");
  return s;
}

std::int64_t rows_of(const AttentionShape& shape, const Tensor& x, std::int64_t columns) {
  const std::int64_t rows = x.num_elements() / columns, most = shape.batch * shape.seq_len;
  TROUPE_ASSERT(x.dtype == shape.dtype && x.num_elements() == rows * columns);
  TROUPE_ASSERT(rows == most || (shape.documents && rows < most));
  return rows;
}

void check(const AttentionShape& shape, const AttentionCall& call) {
  TROUPE_ASSERT(!shape.documents || shape.mask == Mask::none);
  const std::int64_t s = shape.seq_len, rows = shape.mask == Mask::pairs ? s : shape.batch;
  TROUPE_ASSERT(static_cast<bool>(call.mask) == (shape.mask != Mask::none));
  TROUPE_ASSERT(!call.mask || (call.mask.dtype == DType::f32 && call.mask.shape == Shape{rows, s}));
  TROUPE_ASSERT(static_cast<bool>(call.documents) == shape.documents);
  TROUPE_ASSERT(!call.documents ||
                (call.documents.dtype == DType::i32 && call.documents.num_elements() > 1));
  TROUPE_ASSERT(call.dropout.p >= 0 && call.dropout.p < 1);
  TROUPE_ASSERT(call.sequences == 0 || shape.documents ||
                call.first_sequence + shape.batch <= call.sequences);
}

const CachedAttentionShape& check(const CachedAttentionShape& s) {
  if (s.rows < 1 || s.sequences < 1 || s.capacity < 1 || s.heads < 1 || s.kv_heads < 1 ||
      s.head_dim < 1) {
    throw Error(
        ErrorKind::manifest,
        fmt::format("attention of {} tokens over {} sequences of {}, {} heads, {} key-value "
                    "heads, head size {}; each must be at least 1",
                    s.rows, s.sequences, s.capacity, s.heads, s.kv_heads, s.head_dim));
  }
  check_heads(s.heads, s.kv_heads);
  check_dtype(s.dtype);
  check_scores(s);
  return s;
}

std::int64_t check(const CachedAttentionShape& shape, const CachedTokens& tokens, const Tensor& qkv,
                   const Tensor& out) {
  const auto& [sequences, positions, cos, sin] = tokens;
  const std::int64_t rows = sequences.num_elements();
  TROUPE_ASSERT(sequences.dtype == DType::i32 && positions.dtype == DType::i32);
  TROUPE_ASSERT(rows >= 1 && rows <= shape.rows && positions.num_elements() == rows);
  TROUPE_ASSERT(static_cast<bool>(cos) == static_cast<bool>(sin));
  for (const Tensor& table : {cos, sin})
    TROUPE_ASSERT(!table || (table.dtype == DType::f32 && table.num_elements() % rows == 0 &&
                             table.num_elements() / rows <= shape.head_dim / 2));
  TROUPE_ASSERT(cos.num_elements() == sin.num_elements());
  TROUPE_ASSERT(qkv.dtype == shape.dtype && qkv.num_elements() == rows * shape.columns());
  TROUPE_ASSERT(out.dtype == shape.dtype &&
                out.num_elements() == rows * shape.heads * shape.head_dim);
  return rows;
}

}  // namespace troupe::tensor
