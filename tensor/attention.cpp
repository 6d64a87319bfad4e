#include "tensor/attention.h"

#include <fmt/format.h>

#include "tensor/error.h"

namespace troupe::tensor {

void check(const AttentionShape& s) {
  if (s.batch < 1 || s.seq_len < 1 || s.heads < 1 || s.kv_heads < 1 || s.head_dim < 2) {
    throw Error(ErrorKind::manifest,
                fmt::format("attention over batch {}, sequence {}, {} heads, {} key-value heads, "
                            "head size {}; each must be at least 1, the head size at least 2",
                            s.batch, s.seq_len, s.heads, s.kv_heads, s.head_dim));
  }
  if (s.heads % s.kv_heads != 0) {
    throw Error(ErrorKind::manifest,
                fmt::format("{} heads cannot share {} key-value heads; a divisor of {} is needed",
                            s.heads, s.kv_heads, s.heads));
  }
  if (s.rotary) {
    if (const std::string why = check_rotary(*s.rotary, s.head_dim); !why.empty())
      throw Error(ErrorKind::manifest, "attention: " + why);
  }
  if (s.dtype != DType::f32 && s.dtype != DType::bf16) {
    throw Error(ErrorKind::manifest,
                fmt::format("attention in {}; use float32 or bfloat16", name_of(s.dtype)));
  }
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

}  // namespace troupe::tensor
