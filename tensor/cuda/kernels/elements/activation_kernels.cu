#include "tensor/cuda/kernels/elements/elementwise_kernels.h"
#include "tensor/cuda/kernels/grid/elementwise.h"
#include "tensor/cuda/kernels/grid/launch_shape.h"
#include "tensor/cuda/kernels/grid/packs.h"
#include "tensor/cuda/kernels/grid/row_sums.h"

namespace troupe::tensor::cuda {
namespace {

// (1 + tanh(u)) / 2 = sigmoid(2u), so that gelu(x) = x sigmoid(2u), 2u = kSlope (x + kCubic x^3).
constexpr float kSlope = 1.5957691216f;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715f;

/// e^-2u at x, which is infinite for a very negative x.
__device__ __forceinline__ float exp_of_negated(float x) {
  return expf(-kSlope * (x + kCubic * x * x * x));
}

/// gelu'(x) = s + x s (1 - s) (2u)', s = sigmoid(2u). Beyond 10 it is 1 or 0 to float32's digits;
/// x is kept within, where e^-2u is finite and 1 - s = e^-2u s loses no digits. Keeps a NaN.
__device__ __forceinline__ float gelu_slope(float x) {
  constexpr float kFar = 10.0f;
  if (x < -kFar) x = -kFar;
  if (x > kFar) x = kFar;
  const float e = exp_of_negated(x);
  const float s = __fdividef(1.0f, 1.0f + e);
  return s + x * s * (e * s) * (kSlope + 3 * kCubic * kSlope * x * x);
}

__device__ __forceinline__ float gelu_of(float x) {
  return __fdividef(x, 1.0f + exp_of_negated(x));
}

__device__ __forceinline__ float sigmoid(float x) {
  return __fdividef(1.0f, 1.0f + expf(-x));
}

/// An activation and its derivative at a point.
struct Activated {
  float value, slope;
};

/// silu(g) = g s with s = sigmoid(g), and silu'(g) = s + g s (1 - s).
struct Silu {
  static __device__ __forceinline__ float value(float g) { return g * sigmoid(g); }
  static __device__ __forceinline__ Activated with_slope(float g) {
    const float s = sigmoid(g);
    const float silu = g * s;
    return {silu, s + silu * (1.0f - s)};
  }
};

struct Gelu {
  static __device__ __forceinline__ float value(float g) { return gelu_of(g); }
  static __device__ __forceinline__ Activated with_slope(float g) {
    return {gelu_of(g), gelu_slope(g)};
  }
};

template <typename Activation, int n, typename T>
__global__ void __launch_bounds__(kElementThreads)
    gated_kernel(const T* gate_up, T* y, std::int64_t rows, std::int64_t width) {
  for_each_pack_of_rows<n>(rows, width, [&](std::int64_t row, std::int64_t column) {
    const T* gate = gate_up + row * 2 * width + column;
    const Pack<n> g = load<n>(gate);
    Pack<n> product = load<n>(gate + width);
#pragma unroll
    for (int j = 0; j < n; ++j) product[j] *= Activation::value(g[j]);
    store(product, y + row * width + column);
  });
}

template <typename Activation, int n, typename T>
__global__ void __launch_bounds__(kElementThreads)
    gated_backward_kernel(const T* gate_up, const T* dy, T* dgate_up, std::int64_t rows,
                          std::int64_t width) {
  for_each_pack_of_rows<n>(rows, width, [&](std::int64_t row, std::int64_t column) {
    const std::int64_t i = row * 2 * width + column;
    const Pack<n> g = load<n>(gate_up + i);
    const Pack<n> u = load<n>(gate_up + i + width);
    const Pack<n> d = load<n>(dy + row * width + column);
    Pack<n> dgate, dup;
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const Activated activated = Activation::with_slope(g[j]);
      dgate[j] = d[j] * u[j] * activated.slope;
      dup[j] = d[j] * activated.value;
    }
    store(dgate, dgate_up + i);
    store(dup, dgate_up + i + width);
  });
}

// A block has one row, with its weight.

template <typename T>
__global__ void __launch_bounds__(kElementThreads)
    weighted_swiglu_kernel(const T* gate_up, const float* weights, T* y, std::int64_t width) {
  const std::int64_t row = blockIdx.x;
  const T* const gate = gate_up + row * 2 * width;
#pragma unroll 1
  for (std::int64_t column = threadIdx.x; column < width; column += blockDim.x) {
    const float gated = Silu::value(to_float32(gate[column])) * to_float32(gate[column + width]);
    y[row * width + column] = from_float32<T>(gated * weights[row]);
  }
}

/// The weight's gradient is a sum over the row.
template <typename T>
__global__ void __launch_bounds__(kElementThreads)
    weighted_swiglu_backward_kernel(const T* gate_up, const float* weights, const T* dy,
                                    T* dgate_up, float* dweights, std::int64_t width) {
  SHARED(float, shared, kRowSumElements);
  const std::int64_t row = blockIdx.x;
  const float weight = weights[row];
  float dot[1] = {0.0f};
#pragma unroll 1
  for (std::int64_t column = threadIdx.x; column < width; column += blockDim.x) {
    const std::int64_t i = row * 2 * width + column;
    const float u = to_float32(gate_up[i + width]);
    const float d = to_float32(dy[row * width + column]);
    const Activated activated = Silu::with_slope(to_float32(gate_up[i]));
    dot[0] += d * (activated.value * u);
    dgate_up[i] = from_float32<T>(d * weight * u * activated.slope);
    dgate_up[i + width] = from_float32<T>(d * weight * activated.value);
  }
  unsigned turn = 0;
  row_sums(dot, shared, turn);
  if (threadIdx.x == 0) dweights[row] = dot[0];
}

template <int n, typename T>
__global__ void __launch_bounds__(kElementThreads)
    gelu_kernel(const T* x, T* y, std::int64_t count) {
  for_each_pack<n>(count, [&]<int w>(std::int64_t i, Width<w>) {
    auto values = load<w>(x + i);
#pragma unroll
    for (int j = 0; j < w; ++j) values[j] = gelu_of(values[j]);
    store(values, y + i);
  });
}

template <int n, typename T>
__global__ void __launch_bounds__(kElementThreads)
    gelu_backward_kernel(const T* x, const T* dy, T* dx, std::int64_t count) {
  for_each_pack<n>(count, [&]<int w>(std::int64_t i, Width<w>) {
    const auto values = load<w>(x + i);
    auto gradient = load<w>(dy + i);
#pragma unroll
    for (int j = 0; j < w; ++j) gradient[j] *= gelu_slope(values[j]);
    store(gradient, dx + i);
  });
}

dim3 row_threads(std::int64_t width) {
  return dim3(std::min(kElementThreads, whole_warps(width)));
}

template <typename Activation>
void launch_gated(DType dtype, const void* gate_up, void* y, std::int64_t rows, std::int64_t width,
                  cudaStream_t stream) {
  with_pack(dtype, width, {gate_up, y}, [&]<typename T, int n>(PackOf<T, n>) {
    const auto [blocks, threads] = row_launch(rows, width / n);
    launch(gated_kernel<Activation, n, T>, blocks, threads, 0, stream, gate_up, y, rows, width);
  });
}

template <typename Activation>
void launch_gated_backward(DType dtype, const void* gate_up, const void* dy, void* dgate_up,
                           std::int64_t rows, std::int64_t width, cudaStream_t stream) {
  with_pack(dtype, width, {gate_up, dy, dgate_up}, [&]<typename T, int n>(PackOf<T, n>) {
    const auto [blocks, threads] = row_launch(rows, width / n);
    launch(gated_backward_kernel<Activation, n, T>, blocks, threads, 0, stream, gate_up, dy,
           dgate_up, rows, width);
  });
}

}  // namespace

void launch_swiglu(DType dtype, const void* gate_up, void* y, std::int64_t rows, std::int64_t width,
                   cudaStream_t stream) {
  launch_gated<Silu>(dtype, gate_up, y, rows, width, stream);
}

void launch_swiglu_backward(DType dtype, const void* gate_up, const void* dy, void* dgate_up,
                            std::int64_t rows, std::int64_t width, cudaStream_t stream) {
  launch_gated_backward<Silu>(dtype, gate_up, dy, dgate_up, rows, width, stream);
}

void launch_weighted_swiglu(DType dtype, const void* gate_up, const float* weights, void* y,
                            std::int64_t rows, std::int64_t width, cudaStream_t stream) {
  with_act_type(dtype, [&]<typename T>(Type<T>) {
    launch(weighted_swiglu_kernel<T>, dim3(static_cast<unsigned>(rows)), row_threads(width), 0,
           stream, static_cast<const T*>(gate_up), weights, static_cast<T*>(y), width);
  });
}

void launch_weighted_swiglu_backward(DType dtype, const void* gate_up, const float* weights,
                                     const void* dy, void* dgate_up, float* dweights,
                                     std::int64_t rows, std::int64_t width, cudaStream_t stream) {
  with_act_type(dtype, [&]<typename T>(Type<T>) {
    launch(weighted_swiglu_backward_kernel<T>, dim3(static_cast<unsigned>(rows)),
           row_threads(width), 0, stream, static_cast<const T*>(gate_up), weights,
           static_cast<const T*>(dy), static_cast<T*>(dgate_up), dweights, width);
  });
}

void launch_geglu(DType dtype, const void* gate_up, void* y, std::int64_t rows, std::int64_t width,
                  cudaStream_t stream) {
  launch_gated<Gelu>(dtype, gate_up, y, rows, width, stream);
}

void launch_geglu_backward(DType dtype, const void* gate_up, const void* dy, void* dgate_up,
                           std::int64_t rows, std::int64_t width, cudaStream_t stream) {
  launch_gated_backward<Gelu>(dtype, gate_up, dy, dgate_up, rows, width, stream);
}

void launch_gelu(DType dtype, const void* x, void* y, std::int64_t count, cudaStream_t stream) {
  with_pack(dtype, 0, {x, y}, [&]<typename T, int n>(PackOf<T, n>) {
    launch(gelu_kernel<n, T>, blocks_for(count / n), kElementThreads, 0, stream, x, y, count);
  });
}

void launch_gelu_backward(DType dtype, const void* x, const void* dy, void* dx, std::int64_t count,
                          cudaStream_t stream) {
  with_pack(dtype, 0, {x, dy, dx}, [&]<typename T, int n>(PackOf<T, n>) {
    launch(gelu_backward_kernel<n, T>, blocks_for(count / n), kElementThreads, 0, stream, x, dy, dx,
           count);
  });
}

}  // namespace troupe::tensor::cuda
