#pragma once

#include <cublasLt.h>

#include <memory>
#include <vector>

#include "tensor/cuda/products/cuda_product.h"
#include "tensor/device/device.h"

namespace troupe::test {

// cuBLASLt on host memory, for a program that links its library and the source beside this header.
// Descriptors are the library's own; its functions that need a GPU are replaced. Those read the
// descriptors back, follow them literally, and refuse a product whose addresses are less aligned
// than its algorithm was promised, or whose workspace is another one than it asked for. The
// heuristic refuses split sums that may be rounded more than once.
//
// An algorithm's words are its place among those that the heuristic gave, the alignments of A, B
// and D that it was promised, and its workspace. A choice by speed takes the last one.

/// What a product was run with.
struct ProductCall {
  cublasLtMatmulAlgo_t algorithm{};
  cublasComputeType_t compute{};
};

/// The products that were run so far, in order.
std::vector<ProductCall>& product_calls();

/// An emulated GPU (see emulated_device.h) whose products are those of tensor/cuda on this
/// cuBLASLt.
std::unique_ptr<tensor::Device> make_cublaslt_device(
    int seed, const tensor::cuda::ProductLibrary& library = {});

}  // namespace troupe::test
