#include "tests/support/host_cublaslt.h"

#include <algorithm>
#include <cstring>

#include "tensor/cuda/products/cuda_linear.h"
#include "tensor/cuda/products/product_trial.h"
#include "tensor/device/attention.h"
#include "tensor/values/dtype.h"
#include "tests/support/emulated_device.h"

namespace troupe::test {
namespace {

using tensor::BFloat16;

/// A descriptor's attribute, read back.
template <typename Value, typename Get, typename Descriptor, typename Attribute>
Value attribute(Get* get, Descriptor descriptor, Attribute name) {
  Value value{};
  std::size_t written = 0;
  if (get(descriptor, name, &value, sizeof value, &written) != CUBLAS_STATUS_SUCCESS ||
      written != sizeof value)
    throw std::logic_error("an attribute of a descriptor cannot be read");
  return value;
}

struct Matrix {
  explicit Matrix(cublasLtMatrixLayout_t layout)
      : bf16(get<std::uint32_t>(layout, CUBLASLT_MATRIX_LAYOUT_TYPE) == CUDA_R_16BF),
        rows(get<std::uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_ROWS)),
        columns(get<std::uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_COLS)),
        ld(static_cast<std::uint64_t>(get<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_LD))) {}

  template <typename Value>
  static Value get(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name) {
    return attribute<Value>(cublasLtMatrixLayoutGetAttribute, layout, name);
  }
  double at(const void* data, std::uint64_t i, std::uint64_t j) const {
    const std::uint64_t place = i + j * ld;
    return bf16 ? tensor::to_float(static_cast<const BFloat16*>(data)[place])
                : static_cast<const float*>(data)[place];
  }
  void set(void* data, std::uint64_t i, std::uint64_t j, double value) const {
    const std::uint64_t place = i + j * ld;
    const auto rounded = static_cast<float>(value);
    if (bf16) {
      static_cast<BFloat16*>(data)[place] = tensor::to_bfloat16(rounded);
    } else {
      static_cast<float*>(data)[place] = rounded;
    }
  }

  bool bf16;
  std::uint64_t rows, columns, ld;
};

bool is_transposed(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t name) {
  return attribute<std::int32_t>(cublasLtMatmulDescGetAttribute, product, name) == CUBLAS_OP_T;
}

bool is_aligned(const void* address, std::uint64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

/// An emulated device with other products.
class CublasLtDevice final : public tensor::Device {
 public:
  CublasLtDevice(int seed, const tensor::cuda::ProductLibrary& library)
      : device_(static_cast<std::uint64_t>(seed)), library_(library) {}

  tensor::Buffer allocate(std::size_t bytes, tensor::MemoryKind kind) override {
    return device_.allocate(bytes, kind);
  }
  std::unique_ptr<tensor::Stream> make_stream() override { return device_.make_stream(); }
  std::unique_ptr<tensor::Event> make_event() override { return device_.make_event(); }
  std::unique_ptr<tensor::Event> make_timed_event() override { return device_.make_timed_event(); }
  bool host_reads_memory() const override { return false; }
  tensor::Ops& ops() override { return device_.ops(); }
  std::unique_ptr<tensor::Linear> make_linear(const tensor::LinearShape& shape) override {
    return std::make_unique<tensor::cuda::CudaLinear>(library_, shape);
  }
  std::unique_ptr<tensor::Attention> make_attention(const tensor::AttentionShape& shape) override {
    return device_.make_attention(shape);
  }
  std::unique_ptr<tensor::CachedAttention> make_cached_attention(
      const tensor::CachedAttentionShape& shape) override {
    return device_.make_cached_attention(shape);
  }

 private:
  EmulatedDevice device_;
  const tensor::cuda::ProductLibrary library_;
};

}  // namespace

std::vector<ProductCall>& product_calls() {
  static std::vector<ProductCall> calls;
  return calls;
}

std::unique_ptr<tensor::Device> make_cublaslt_device(int seed,
                                                     const tensor::cuda::ProductLibrary& library) {
  return std::make_unique<CublasLtDevice>(seed, library);
}

}  // namespace troupe::test

namespace troupe::tensor::cuda {

/// The last one, so that a choice by speed differs from the heuristic's.
std::size_t fastest_of(ProductDescriptors&, const ProductLayout&, bool,
                       const std::vector<ProductAlgorithm>& algorithms) {
  return algorithms.size() - 1;
}

}  // namespace troupe::tensor::cuda

using troupe::test::attribute;
using troupe::test::is_aligned;
using troupe::test::is_transposed;
using troupe::test::Matrix;

extern "C" {

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* returned) {
  const auto alignment = [&](cublasLtMatmulPreferenceAttributes_t name) {
    return attribute<std::uint32_t>(cublasLtMatmulPreferenceGetAttribute, preference, name);
  };
  const auto most = attribute<std::uint64_t>(cublasLtMatmulPreferenceGetAttribute, preference,
                                             CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  if (alignment(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) !=
      (CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES) !=
      alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES))
    return CUBLAS_STATUS_INVALID_VALUE;
  *returned = std::min(requested, 3);
  for (int i = 0; i < *returned; ++i) {
    results[i] = {};
    results[i].workspaceSize = std::min<std::uint64_t>(most, 1024u * (i + 1u));
    auto& words = results[i].algo.data;
    words[0] = static_cast<std::uint64_t>(i);
    words[1] = alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
    words[2] = alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
    words[3] = alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
    words[4] = results[i].workspaceSize;
    results[i].state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (algorithm->data[1] == 0) return CUBLAS_STATUS_INVALID_VALUE;  // none of the heuristic's
  *result = {};
  result->algo = *algorithm;
  result->workspaceSize = algorithm->data[4];
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t) {
  const Matrix A(a_layout), B(b_layout), C(c_layout), D(d_layout);
  const bool turn_a = is_transposed(product, CUBLASLT_MATMUL_DESC_TRANSA);
  const bool turn_b = is_transposed(product, CUBLASLT_MATMUL_DESC_TRANSB);
  const double factor = *static_cast<const float*>(alpha), keep = *static_cast<const float*>(beta);
  const std::uint64_t k = turn_a ? A.rows : A.columns;
  const auto& words = algorithm->data;
  if ((turn_a ? A.columns : A.rows) != D.rows || (turn_b ? B.rows : B.columns) != D.columns ||
      (turn_b ? B.columns : B.rows) != k || C.rows != D.rows || C.columns != D.columns ||
      C.bf16 != D.bf16 || !is_aligned(a, words[1]) || !is_aligned(b, words[2]) ||
      !is_aligned(c, words[3]) || !is_aligned(d, words[3]) || workspace_bytes != words[4] ||
      !workspace || !is_aligned(workspace, 256))
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(workspace, 0x5a, workspace_bytes);
  const auto compute = attribute<std::int32_t>(cublasLtMatmulDescGetAttribute, product,
                                               CUBLASLT_MATMUL_DESC_COMPUTE_TYPE);
  troupe::test::product_calls().push_back({*algorithm, static_cast<cublasComputeType_t>(compute)});
  for (std::uint64_t j = 0; j < D.columns; ++j) {
    for (std::uint64_t i = 0; i < D.rows; ++i) {
      double sum = 0;
      for (std::uint64_t l = 0; l < k; ++l)
        sum += (turn_a ? A.at(a, l, i) : A.at(a, i, l)) * (turn_b ? B.at(b, j, l) : B.at(b, l, j));
      D.set(d, i, j, factor * sum + (keep != 0 ? keep * C.at(c, i, j) : 0));
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}
}
