#include "tensor/cuda/products/product_descriptors.h"

#include <cstdint>

#include "tensor/cuda/runtime/cuda_error.h"
#include "tensor/errors/error.h"

namespace troupe::tensor::cuda {
namespace {

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

cublasLtMatrixLayoutOpaque_t layout_of(const ColumnMajor& matrix) {
  cublasLtMatrixLayoutOpaque_t layout{};
  check(cublasLtMatrixLayoutInit(&layout, type_of(matrix.dtype),
                                 static_cast<std::uint64_t>(matrix.rows),
                                 static_cast<std::uint64_t>(matrix.columns), matrix.ld),
        "cublasLtMatrixLayoutInit");
  return layout;
}

template <typename Value>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, Value value) {
  check(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
}

template <typename Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         Value value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

void prefer(cublasLtMatmulPreference_t preference, const ProductAlignment& alignment,
            std::size_t workspace) {
  check(cublasLtMatmulPreferenceInit(preference), "cublasLtMatmulPreferenceInit");
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace});
  // Partial sums stay float32 and are added once to C, so that a sum is rounded once.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  const auto bytes = [](std::size_t value) { return static_cast<std::uint32_t>(value); };
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes(alignment.a));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes(alignment.b));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes(alignment.d));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytes(alignment.d));
}

}  // namespace

ProductAlignment ProductAlignment::of_rows(const ProductLayout& layout) {
  return {.a = alignment_of(layout.a), .b = alignment_of(layout.b), .d = alignment_of(layout.d)};
}

ProductAlignment ProductAlignment::of_elements(const ProductLayout& layout) {
  return {.a = size_of(layout.a.dtype), .b = size_of(layout.b.dtype), .d = size_of(layout.d.dtype)};
}

bool ProductAlignment::serves(const ProductAddresses& at) const {
  const auto fits = [](const void* address, std::size_t alignment) {
    return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;  // null fits
  };
  return fits(at.a, a) && fits(at.b, b) && fits(at.c, d) && fits(at.d, d);
}

ProductDescriptors::ProductDescriptors(cublasLtHandle_t handle, const ProductLayout& layout,
                                       bool tf32)
    : handle_(handle), a_(layout_of(layout.a)), b_(layout_of(layout.b)), d_(layout_of(layout.d)) {
  const bool rounded = tf32 && layout.a.dtype == DType::f32;
  check(cublasLtMatmulDescInit(
            &product_, rounded ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescInit");
  const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(&product_, CUBLASLT_MATMUL_DESC_TRANSA, operation(layout.transpose_a));
  set(&product_, CUBLASLT_MATMUL_DESC_TRANSB, operation(layout.transpose_b));
}

std::vector<ProductAlgorithm> ProductDescriptors::algorithms(const ProductAlignment& alignment,
                                                             std::size_t workspace, int count) {
  cublasLtMatmulPreferenceOpaque_t preference{};
  prefer(&preference, alignment, workspace);
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(count));
  int found = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle_, &product_, &a_, &b_, &d_, &d_, &preference, count,
                                       results.data(), &found),
        "cublasLtMatmulAlgoGetHeuristic");
  results.resize(static_cast<std::size_t>(found));
  std::vector<ProductAlgorithm> algorithms;
  for (const cublasLtMatmulHeuristicResult_t& result : results)
    if (result.state == CUBLAS_STATUS_SUCCESS)
      algorithms.push_back({result.algo, result.workspaceSize});
  if (algorithms.empty()) check(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
  return algorithms;
}

ProductAlgorithm ProductDescriptors::restored(const cublasLtMatmulAlgo_t& algorithm) {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(handle_, &product_, &a_, &b_, &d_, &d_, &algorithm, &result);
  if (status != CUBLAS_STATUS_SUCCESS || result.state != CUBLAS_STATUS_SUCCESS) {
    throw Error(ErrorKind::data,
                "the algorithm that the run keeps for a product is none for this GPU and version "
                "of cuBLASLt; without the file of algorithms it is chosen again");
  }
  return {algorithm, result.workspaceSize};
}

void ProductDescriptors::run(const ProductAlgorithm& algorithm, cudaStream_t stream,
                             const ProductAddresses& at, void* workspace) {
  const float one = 1, beta = at.c ? 1 : 0;
  check(
      cublasLtMatmul(handle_, &product_, &one, at.a, &a_, at.b, &b_, &beta, at.c ? at.c : at.d, &d_,
                     at.d, &d_, &algorithm.algorithm, workspace, algorithm.workspace, stream),
      "cublasLtMatmul");
}

}  // namespace troupe::tensor::cuda
