#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <vector>

#include "tensor/cuda/products/product_layout.h"

namespace troupe::tensor::cuda {

/// Where the matrices of a product lie. c is null if nothing is added.
struct ProductAddresses {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
};

/// Alignments in bytes that the addresses of a product have at least.
struct ProductAlignment {
  std::size_t a = 0;
  std::size_t b = 0;
  std::size_t d = 0;  ///< of c, too

  /// What whole rows of the layout's tensors have.
  static ProductAlignment of_rows(const ProductLayout& layout);
  /// What single elements have.
  static ProductAlignment of_elements(const ProductLayout& layout);
  bool serves(const ProductAddresses& at) const;
};

struct ProductAlgorithm {
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace = 0;  ///< bytes that it works in
};

/// A product in cuBLASLt's words.
class ProductDescriptors {
 public:
  ProductDescriptors(cublasLtHandle_t handle, const ProductLayout& layout, bool tf32);
  ProductDescriptors(const ProductDescriptors&) = delete;
  ProductDescriptors& operator=(const ProductDescriptors&) = delete;

  /// At most `count` algorithms that work in `workspace` bytes, the one expected to be the fastest
  /// first; at least one. Throws Error{internal} if there is none.
  std::vector<ProductAlgorithm> algorithms(const ProductAlignment& alignment, std::size_t workspace,
                                           int count);
  /// A kept algorithm with its workspace. Throws Error{data} if it is not one for this product.
  ProductAlgorithm restored(const cublasLtMatmulAlgo_t& algorithm);
  void run(const ProductAlgorithm& algorithm, cudaStream_t stream, const ProductAddresses& at,
           void* workspace);

 private:
  cublasLtHandle_t handle_;
  cublasLtMatmulDescOpaque_t product_{};
  cublasLtMatrixLayoutOpaque_t a_{}, b_{}, d_{};
};

}  // namespace troupe::tensor::cuda
