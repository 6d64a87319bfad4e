#pragma once

#include <cstddef>
#include <vector>

#include "tensor/cuda/products/product_descriptors.h"

namespace troupe::tensor::cuda {

/// Runs each algorithm several times on random numbers and returns the place of the fastest one.
/// The first one, which is expected to be the fastest, is kept unless another is faster by more
/// than times vary. Takes memory of the GPU for the matrices and gives it back; returns the first
/// one if there is too little. Waits for the GPU.
std::size_t fastest_of(ProductDescriptors& product, const ProductLayout& layout, bool added,
                       const std::vector<ProductAlgorithm>& algorithms);

}  // namespace troupe::tensor::cuda
