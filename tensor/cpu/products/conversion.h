#pragma once

#include <cstdint>

#include "tensor/values/dtype.h"

namespace troupe::tensor {

/// y = x, which is exact.
void widen(int threads, const BFloat16* x, float* y, std::int64_t count);
/// y = x, plus the addend if there is one, rounded once. y may be the addend.
void narrow(int threads, const float* x, const BFloat16* addend, BFloat16* y, std::int64_t count);
/// Each x becomes the bfloat16 nearest to it.
void round_to_bfloat16(int threads, float* x, std::int64_t count);

}  // namespace troupe::tensor
