#include "tensor/cuda/kernels/dropout_kernels.h"

#include "tensor/cuda/kernels/elementwise.h"
#include "tensor/cuda/kernels/packs.h"
#include "tensor/cuda/kernels/philox.h"

namespace troupe::tensor::cuda {
namespace {

/// What decides which elements are dropped.
struct Draw {
  std::uint64_t key;
  unsigned threshold;
  float scale;
  std::int64_t columns;  // of the global matrix
  std::int64_t first;    // index in it of the part's first element
};

/// The random words of n elements from `index` on: one, or a whole number of Philox blocks.
template <int n>
__device__ __forceinline__ void draw(std::uint64_t key, std::uint64_t index, unsigned* words) {
  if constexpr (n == 1) {
    words[0] = philox_word(key, index);
  } else {
#pragma unroll
    for (int i = 0; i < n / 4; ++i) {
      const uint4 block = philox_block(key, index / 4 + static_cast<unsigned>(i));
      words[4 * i] = block.x;
      words[4 * i + 1] = block.y;
      words[4 * i + 2] = block.z;
      words[4 * i + 3] = block.w;
    }
  }
}

template <int n, typename T>
__global__ void __launch_bounds__(kElementThreads)
    dropout_kernel(Draw how, const T* x, const T* residual, T* y, std::int64_t rows,
                   std::int64_t columns) {
  for_each_pack_of_rows<n>(rows, columns, [&](std::int64_t row, std::int64_t column) {
    const std::int64_t i = row * columns + column;
    Pack<n> values = load<n>(x + i);
    unsigned words[n];
    draw<n>(how.key, static_cast<std::uint64_t>(how.first + row * how.columns + column), words);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      values[j] = words[j] < how.threshold ? 0.0f : values[j] * how.scale;
    }
    if (residual) {
      const Pack<n> added = load<n>(residual + i);
#pragma unroll
      for (int j = 0; j < n; ++j) values[j] += added[j];
    }
    store(values, y + i);
  });
}

}  // namespace

template <typename T>
void launch_dropout(const Dropout& dropout, const MatrixSlice& slice, const T* input,
                    const T* residual, T* output, std::int64_t rows, std::int64_t columns,
                    cudaStream_t stream) {
  const auto x = elements(input);
  const auto added = elements(residual);
  const auto y = elements(output);
  using E = std::remove_pointer_t<decltype(y)>;
  const Draw how{.key = dropout.key,
                 .threshold = dropout.threshold(),
                 .scale = dropout.scale(),
                 .columns = slice.columns,
                 .first = static_cast<std::int64_t>(slice.index(0, 0))};
  const bool packed = rows_are_aligned(columns, kPack<E>, {x, added, y}) && how.first % 4 == 0 &&
                      how.columns % 4 == 0;
  const auto kernel = packed ? dropout_kernel<kPack<E>, E> : dropout_kernel<1, E>;
  const auto [blocks, threads] = row_launch(rows, columns / (packed ? kPack<E> : 1));
  launch(kernel, blocks, threads, 0, stream, how, x, added, y, rows, columns);
}
template void launch_dropout(const Dropout&, const MatrixSlice&, const float*, const float*, float*,
                             std::int64_t, std::int64_t, cudaStream_t);
template void launch_dropout(const Dropout&, const MatrixSlice&, const BFloat16*, const BFloat16*,
                             BFloat16*, std::int64_t, std::int64_t, cudaStream_t);

}  // namespace troupe::tensor::cuda
