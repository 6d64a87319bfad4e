#include "tensor/cuda/kernels/elements/elementwise_kernels.h"

#include "tensor/cuda/kernels/grid/elementwise.h"
#include "tensor/cuda/kernels/grid/philox.h"
#include "tensor/cuda/kernels/grid/row_packs.h"

namespace troupe::tensor::cuda {
namespace {

template <int n, typename T>
__global__ void __launch_bounds__(kElementThreads)
    accumulate_kernel(const T* x, T* y, std::int64_t count) {
  for_each_pack<n>(count, [&]<int w>(std::int64_t i, Width<w>) {
    const auto added = load<w>(x + i);
    auto sum = load<w>(y + i);
#pragma unroll
    for (int j = 0; j < w; ++j) sum[j] += added[j];
    store(sum, y + i);
  });
}

template <int n, typename From, typename To>
__global__ void __launch_bounds__(kElementThreads)
    convert_kernel(const From* x, To* y, std::int64_t count) {
  for_each_pack<n>(count, [&]<int w>(std::int64_t i, Width<w>) { store(load<w>(x + i), y + i); });
}

template <int n, typename T>
__global__ void __launch_bounds__(kElementThreads)
    add_bias_kernel(const float* b, const T* residual, T* y, std::int64_t rows,
                    std::int64_t columns) {
  for_each_pack_of_rows<n>(rows, columns, [&](std::int64_t row, std::int64_t column) {
    const std::int64_t i = row * columns + column;
    Pack<n> sum = load<n>(y + i);
    const Pack<n> bias = load<n>(b + column);
#pragma unroll
    for (int j = 0; j < n; ++j) sum[j] += bias[j];
    if (residual) {
      const Pack<n> added = load<n>(residual + i);
#pragma unroll
      for (int j = 0; j < n; ++j) sum[j] += added[j];
    }
    store(sum, y + i);
  });
}

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

constexpr int kUpdated = 4;  // elements of a thread of adamw_kernel at a time

/// Four loads of 16 bytes are on their way before the first is used.
template <typename Copy, bool kAligned>
__global__ void __launch_bounds__(kElementThreads) adamw_kernel(AdamWUpdate a) {
  const AdamWFactors& f = a.factors;
  using Packs = RowPacks<kUpdated, kAligned>;
  const std::int64_t packs = Packs::count(a.count);
  const std::int64_t step = std::int64_t{gridDim.x} * kElementThreads;
  for (std::int64_t pack = std::int64_t{blockIdx.x} * kElementThreads + threadIdx.x; pack < packs;
       pack += step) {
    const Pack<kUpdated> gradient = Packs::load(a.gradient, pack, a.count);
    Pack<kUpdated> w = Packs::load(a.w, pack, a.count);
    Pack<kUpdated> m = Packs::load(a.m, pack, a.count);
    Pack<kUpdated> v = Packs::load(a.v, pack, a.count);
#pragma unroll
    for (int i = 0; i < kUpdated; ++i) {
      const float g = gradient[i] * f.gradient_scale;
      m[i] = f.beta1 * m[i] + f.one_minus_beta1 * g;
      v[i] = f.beta2 * v[i] + f.one_minus_beta2 * g * g;
      const float root = sqrtf(v[i]) * f.root_scale + f.eps;
      w[i] = w[i] * f.keep - f.step_size * (m[i] / root);
    }
    Packs::store(w, a.w_out, pack, a.count);
    Packs::store(m, a.m_out, pack, a.count);
    Packs::store(v, a.v_out, pack, a.count);
    if (a.copy) Packs::store(w, static_cast<Copy*>(a.copy), pack, a.count);
  }
}

}  // namespace

void launch_accumulate(DType dtype, const void* x, void* y, std::int64_t count,
                       cudaStream_t stream) {
  with_pack(dtype, 0, {x, y}, [&]<typename T, int n>(PackOf<T, n>) {
    launch(accumulate_kernel<n, T>, blocks_for(count / n), kElementThreads, 0, stream, x, y, count);
  });
}

void launch_convert(DType from, const void* x, void* y, std::int64_t n, cudaStream_t stream) {
  constexpr int kWidth = kPack<__nv_bfloat16>;
  const bool packed = are_aligned({x, y});
  with_act_type(from, [&]<typename From>(Type<From>) {
    using To = std::conditional_t<std::is_same_v<From, float>, __nv_bfloat16, float>;
    const auto kernel = packed ? convert_kernel<kWidth, From, To> : convert_kernel<1, From, To>;
    launch(kernel, blocks_for(packed ? n / kWidth : n), kElementThreads, 0, stream, x, y, n);
  });
}

void launch_add_bias(DType dtype, const float* b, const void* residual, void* y, std::int64_t rows,
                     std::int64_t columns, cudaStream_t stream) {
  with_pack(dtype, columns, {b, residual, y}, [&]<typename T, int n>(PackOf<T, n>) {
    const auto [blocks, threads] = row_launch(rows, columns / n);
    launch(add_bias_kernel<n, T>, blocks, threads, 0, stream, b, residual, y, rows, columns);
  });
}

void launch_dropout(DType dtype, const Dropout& dropout, const MatrixSlice& slice, const void* x,
                    const void* residual, void* y, std::int64_t rows, std::int64_t columns,
                    cudaStream_t stream) {
  const Draw how{.key = dropout.key,
                 .threshold = dropout.threshold(),
                 .scale = dropout.scale(),
                 .columns = slice.columns,
                 .first = static_cast<std::int64_t>(slice.index(0, 0))};
  // A pack has whole blocks of random words.
  const bool has_blocks = how.first % 4 == 0 && how.columns % 4 == 0;
  with_pack(dtype, has_blocks ? columns : 1, {x, residual, y},
            [&]<typename T, int n>(PackOf<T, n>) {
              const auto [blocks, threads] = row_launch(rows, columns / n);
              launch(dropout_kernel<n, T>, blocks, threads, 0, stream, how, x, residual, y, rows,
                     columns);
            });
}

void launch_adamw(const AdamWUpdate& a, cudaStream_t stream) {
  constexpr std::int64_t kBlocks = 8;  // for each multiprocessor
  const bool aligned = rows_are_aligned(
      a.count, kUpdated, {a.gradient, a.w, a.m, a.v, a.w_out, a.m_out, a.v_out, a.copy});
  with_act_type(a.copy_dtype, [&](auto copy) {
    with_constant(aligned, [&](auto is_aligned) {
      using Copy = typename decltype(copy)::type;
      const std::int64_t packs = RowPacks<kUpdated, is_aligned()>::count(a.count);
      launch(adamw_kernel<Copy, is_aligned()>,
             dim3(grid_blocks(divide_up<std::int64_t>(packs, kElementThreads), kBlocks)),
             dim3(kElementThreads), 0, stream, a);
    });
  });
}

}  // namespace troupe::tensor::cuda
