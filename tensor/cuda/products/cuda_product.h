#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <optional>
#include <string>

#include "tensor/cuda/products/algorithm_store.h"
#include "tensor/cuda/products/product_descriptors.h"
#include "tensor/cuda/products/product_layout.h"

namespace troupe::tensor::cuda {

/// What products need of their device, beside a stream.
struct ProductLibrary {
  cublasLtHandle_t handle = nullptr;
  bool tf32 = false;                ///< whether factors of float32 products are rounded to tf32
  AlgorithmStore* store = nullptr;  ///< null if algorithms are not chosen by their speed
  std::string key;                  ///< what a chosen algorithm depends on, beside the product
};

/// One product by cuBLASLt, with its algorithm: the heuristic's first answer, which is always the
/// same, or the store's. Sums are float32; partial sums of a product that is split along k are
/// added as float32 in a fixed order, and once to C.
class CudaProduct {
 public:
  /// `added`: whether most calls add to C. Choosing by speed takes memory of the GPU and gives it
  /// back.
  CudaProduct(const ProductLibrary& library, const ProductLayout& layout, bool added);

  /// Size of the workspace that run() is given, on a 256-byte boundary.
  std::size_t workspace_bytes() const { return choice_.workspace; }
  const ProductLayout& layout() const { return layout_; }
  /// Queues D = op(A) op(B), plus C if there is one; C may be D. Addresses that are less aligned
  /// than whole rows are (see alignment_of()) take another algorithm, which is found then.
  void run(cudaStream_t stream, const ProductAddresses& at, void* workspace);

 private:
  ProductAlgorithm chosen(const ProductLibrary& library, bool added);
  std::string key(const ProductLibrary& library) const;

  const ProductLayout layout_;
  const ProductAlignment alignment_;
  ProductDescriptors descriptors_;
  ProductAlgorithm choice_;
  std::optional<ProductAlgorithm> unaligned_;
};

}  // namespace troupe::tensor::cuda
