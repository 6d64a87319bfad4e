#pragma once

#include <cstddef>

#include "tensor/tensor.h"

namespace troupe::tensor {

/// A view of rows [first, first + count) of a matrix.
inline Tensor row_view(const Tensor& x, std::int64_t first, std::int64_t count) {
  const auto row_bytes = static_cast<std::int64_t>(size_of(x.dtype)) * x.shape[1];
  return {x.as<std::byte>() + first * row_bytes, x.dtype, {count, x.shape[1]}};
}

}  // namespace troupe::tensor
