#include "tensor/cached_attention.h"

#include <fmt/format.h>

#include "tensor/error.h"

namespace troupe::tensor {

void check(const CachedAttentionShape& s) {
  if (s.rows < 1 || s.sequences < 1 || s.capacity < 1 || s.heads < 1 || s.kv_heads < 1 ||
      s.head_dim < 1) {
    throw Error(
        ErrorKind::manifest,
        fmt::format("attention of {} tokens over {} sequences of {}, {} heads, {} key-value "
                    "heads, head size {}; each must be at least 1",
                    s.rows, s.sequences, s.capacity, s.heads, s.kv_heads, s.head_dim));
  }
  if (s.heads % s.kv_heads != 0) {
    throw Error(ErrorKind::manifest,
                fmt::format("{} heads cannot share {} key-value heads; a divisor of {} is needed",
                            s.heads, s.kv_heads, s.heads));
  }
  if (s.dtype != DType::f32 && s.dtype != DType::bf16) {
    throw Error(ErrorKind::manifest,
                fmt::format("attention in {}; use float32 or bfloat16", name_of(s.dtype)));
  }
}

void check(const CachedAttentionShape& shape, const CachedTokens& tokens) {
  const auto& [sequences, positions, cos, sin] = tokens;
  const std::int64_t rows = sequences.num_elements();
  TROUPE_ASSERT(sequences.dtype == DType::i32 && positions.dtype == DType::i32);
  TROUPE_ASSERT(rows >= 1 && rows <= shape.rows && positions.num_elements() == rows);
  TROUPE_ASSERT(static_cast<bool>(cos) == static_cast<bool>(sin));
  for (const Tensor& table : {cos, sin})
    TROUPE_ASSERT(!table || (table.dtype == DType::f32 && shape.head_dim % 2 == 0 &&
                             table.num_elements() == rows * shape.head_dim / 2));
}

}  // namespace troupe::tensor
