#pragma once

#include <cstdint>

#include "tensor/cuda/kernels/grid_types.h"
#include "tensor/dtype.h"

// T is float or BFloat16.

namespace troupe::tensor::cuda {

/// y[rows, width] = silu(g) * u; a row of gate_up[rows, 2 width] holds g and then u.
template <typename T>
void launch_swiglu(const T* gate_up, T* y, std::int64_t rows, std::int64_t width,
                   cudaStream_t stream);
/// dgate_up[rows, 2 width] from gate_up and dy[rows, width]; dgate_up may be gate_up.
template <typename T>
void launch_swiglu_backward(const T* gate_up, const T* dy, T* dgate_up, std::int64_t rows,
                            std::int64_t width, cudaStream_t stream);

/// y[n] = the tanh form of GELU (arXiv 1606.08415) of x[n]; y may be x.
template <typename T>
void launch_gelu(const T* x, T* y, std::int64_t n, cudaStream_t stream);
/// dx[n] from x[n] and dy[n]; dx may be x or dy.
template <typename T>
void launch_gelu_backward(const T* x, const T* dy, T* dx, std::int64_t n, cudaStream_t stream);

}  // namespace troupe::tensor::cuda
