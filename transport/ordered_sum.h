#pragma once

#include <cstddef>
#include <span>

#include "tensor/dtype.h"

namespace troupe::transport {

/// out[i] = parts[0][i] + parts[1][i] + ..., in that order for every element, so that all members
/// that add the same parts get the same bits. `out` may be one of the parts. dtype is f32 or f64.
void ordered_sum(std::span<const std::byte* const> parts, std::byte* out, std::size_t elements,
                 tensor::DType dtype);

}  // namespace troupe::transport
