// Loops over the rows of a query block. Compiled once per target: include it after
// foreach_target.h.

#if defined(TROUPE_TENSOR_CPU_ATTENTION_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_TENSOR_CPU_ATTENTION_ROWS_INL_H
#undef TROUPE_TENSOR_CPU_ATTENTION_ROWS_INL_H
#else
#define TROUPE_TENSOR_CPU_ATTENTION_ROWS_INL_H
#endif

#include "tensor/cpu/attention/query_block.h"
#include "tensor/cpu/loops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::tensor::HWY_NAMESPACE {

/// Calls body(row, position, head) for the rows of the block in order.
template <typename Body>
HWY_INLINE void for_each_row(const QueryBlock& block, const Body& body) {
  std::int64_t row = 0;
  for (std::int64_t p = 0; p < block.positions; ++p) {
    for (std::int64_t g = 0; g < block.group; ++g) body(row++, p, g);
  }
}

}  // namespace troupe::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
