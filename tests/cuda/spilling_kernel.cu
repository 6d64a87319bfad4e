// A kernel that needs more registers than it is allowed: compiling it as the others must fail.

#include "tensor/cuda/kernels/grid/grid.h"

__global__ void __launch_bounds__(1024, 2) spilling_kernel(float* x) {
  float values[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) values[i] = x[i * 1024 + threadIdx.x];
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    float sum = 0;
#pragma unroll
    for (int j = 0; j < 64; ++j) sum = fmaf(values[j], values[(i * 7 + j * j) % 64], sum);
    x[i * 1024 + threadIdx.x] = sum;
  }
}
