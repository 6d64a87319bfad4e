#pragma once

#include <cstddef>

#include "tensor/cpu/products/product.h"

namespace troupe::tensor {

/// Bytes of scratch memory that multiply() needs for a shape.
std::size_t multiply_scratch_bytes(const ProductShape& shape);

/// c = a b (+ c, with Addend::destination), as a Product computes it, in the calling thread. It
/// needs no preparation: for products whose shape changes from call to call. Sums are float32, in
/// ascending order of k. b is plain or transposed, c float32.
void multiply(const ProductShape& shape, const void* a, const void* b, float* c, void* scratch);

}  // namespace troupe::tensor
