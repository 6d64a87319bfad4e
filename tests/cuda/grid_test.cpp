#include "tensor/cuda/kernels/grid/grid.h"

#include <boost/test/unit_test.hpp>
#include <numeric>
#include <vector>

namespace troupe::tensor::cuda {

BOOST_AUTO_TEST_SUITE(grid_test)

namespace {

// sums[block] = the sum of the block's values, by warps and then by one shared array of warps.
void sum_kernel(const float* x, float* sums, int count) {
  SHARED(float, partial, 32);
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    sum += x[static_cast<int>(blockIdx.x) * count + i];
  }
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float all = 0;
    for (unsigned w = 0; w < blockDim.x / 32; ++w) all += partial[w];
    sums[blockIdx.x] = all;
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(blocks_sum_in_any_order_of_threads) {
  std::vector<float> x(7 * 1000);
  std::iota(x.begin(), x.end(), 1.0f);
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    emulated_grid::Grid grid(seed);
    std::vector<float> sums(7);
    launch(sum_kernel, 7, 128, 0, grid.stream(), x.data(), sums.data(), 1000);
    for (std::size_t b = 0; b < 7; ++b) {
      BOOST_TEST(sums[b] == 1000 * (500.5f + 1000 * static_cast<float>(b)));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor::cuda
