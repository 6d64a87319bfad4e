#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/cuda/kernels/grid/grid_types.h"
#include "tensor/device/ops.h"

// Kernels that compute each element alone. Pointers of type void are to elements of `dtype`,
// float32 or bfloat16.

namespace troupe::tensor::cuda {

/// y[n] += x[n].
void launch_accumulate(DType dtype, const void* x, void* y, std::int64_t n, cudaStream_t stream);

/// y[n] = x[n], from float32 to bfloat16, rounded to nearest even, or from bfloat16 to float32.
void launch_convert(DType from, const void* x, void* y, std::int64_t n, cudaStream_t stream);

/// y[rows, columns] += b[columns] (+ residual[rows, columns], if not null). y may be residual.
void launch_add_bias(DType dtype, const float* b, const void* residual, void* y, std::int64_t rows,
                     std::int64_t columns, cudaStream_t stream);

/// y[rows, columns] = x where kept, times the dropout's scale, and 0 where dropped (+ residual, if
/// not null). x is the part `slice` of the matrix whose elements are drawn. y may be x or residual.
void launch_dropout(DType dtype, const Dropout& dropout, const MatrixSlice& slice, const void* x,
                    const void* residual, void* y, std::int64_t rows, std::int64_t columns,
                    cudaStream_t stream);

/// y[rows, width] = silu(g) * u; a row of gate_up[rows, 2 width] holds g and then u.
void launch_swiglu(DType dtype, const void* gate_up, void* y, std::int64_t rows, std::int64_t width,
                   cudaStream_t stream);
/// dgate_up[rows, 2 width] from gate_up and dy[rows, width]; dgate_up may be gate_up.
void launch_swiglu_backward(DType dtype, const void* gate_up, const void* dy, void* dgate_up,
                            std::int64_t rows, std::int64_t width, cudaStream_t stream);
/// launch_swiglu() times weights[rows].
void launch_weighted_swiglu(DType dtype, const void* gate_up, const float* weights, void* y,
                            std::int64_t rows, std::int64_t width, cudaStream_t stream);
/// dgate_up[rows, 2 width], which may be gate_up, and dweights[rows], which may be weights.
void launch_weighted_swiglu_backward(DType dtype, const void* gate_up, const float* weights,
                                     const void* dy, void* dgate_up, float* dweights,
                                     std::int64_t rows, std::int64_t width, cudaStream_t stream);
/// launch_swiglu() with gelu in the place of silu.
void launch_geglu(DType dtype, const void* gate_up, void* y, std::int64_t rows, std::int64_t width,
                  cudaStream_t stream);
void launch_geglu_backward(DType dtype, const void* gate_up, const void* dy, void* dgate_up,
                           std::int64_t rows, std::int64_t width, cudaStream_t stream);

/// y[n] = factor x[n]; y may be x.
void launch_scale(DType dtype, const void* x, float factor, void* y, std::int64_t n,
                  cudaStream_t stream);
/// y[n] = residual[n] + factor x[n]; y may be x or residual.
void launch_add_scaled(DType dtype, const void* x, float factor, const void* residual, void* y,
                       std::int64_t n, cudaStream_t stream);
/// y[n] = cap tanh(scale x / cap), float32; y may be x.
void launch_soft_cap(const float* x, float scale, float cap, float* y, std::int64_t n,
                     cudaStream_t stream);
/// dx[n] = dy scale (1 - (y / cap)^2) from the capped y[n] (float32); dx may be dy, or y.
void launch_soft_cap_backward(DType dtype, const float* y, const void* dy, float scale, float cap,
                              void* dx, std::int64_t n, cudaStream_t stream);

/// y[n] = the tanh form of GELU (arXiv 1606.08415) of x[n]; y may be x.
void launch_gelu(DType dtype, const void* x, void* y, std::int64_t n, cudaStream_t stream);
/// dx[n] from x[n] and dy[n]; dx may be x or dy.
void launch_gelu_backward(DType dtype, const void* x, const void* dy, void* dx, std::int64_t n,
                          cudaStream_t stream);

/// The update of a parameter's `count` float32 elements, as AdamWFactors says. The outputs may be
/// the inputs. `copy`, of float32 or bfloat16 elements, becomes w_out; null: there is none.
struct AdamWParameter {
  AdamWFactors factors;
  std::int64_t count = 0;
  const float* gradient = nullptr;
  const float *w = nullptr, *m = nullptr, *v = nullptr;
  float *w_out = nullptr, *m_out = nullptr, *v_out = nullptr;
  void* copy = nullptr;
  DType copy_dtype = DType::f32;
};
/// How many parameters a launch updates at most: those of a layer, and so few that a kernel's
/// arguments hold them.
inline constexpr std::size_t kAdamWParameters = 24;
/// Updates kAdamWParameters at most, in one launch if all are aligned to 16 bytes and their copies
/// are of one type.
void launch_adamw(std::span<const AdamWParameter> parameters, cudaStream_t stream);

}  // namespace troupe::tensor::cuda
