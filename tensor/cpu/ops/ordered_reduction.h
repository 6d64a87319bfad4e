#pragma once

#include <cstddef>
#include <span>

#include "tensor/device/process_group.h"
#include "tensor/values/dtype.h"

namespace troupe::tensor {

/// out[i] = parts[0][i] (+) parts[1][i] (+) ..., in that order for every element, so that all who
/// reduce the same parts get the same bits. `out` may be one of the parts; it may not overlap them
/// otherwise. The memory needs no more alignment than an element.
///
/// bfloat16 is computed in float32 and rounded once, integers wrap around. An average is the sum
/// over the number of parts, and rounds to zero for integers. A maximum is NaN where any part is.
void ordered_reduction(std::span<const std::byte* const> parts, std::byte* out,
                       std::size_t elements, DType dtype, Reduction reduction);
/// ordered_reduction() of bfloat16, with a result in float32, which is not rounded to bfloat16.
void ordered_reduction_to_f32(std::span<const std::byte* const> parts, std::byte* out,
                              std::size_t elements, Reduction reduction);

}  // namespace troupe::tensor
