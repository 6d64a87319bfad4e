#include "tensor/cuda/kernels/elements/elementwise_kernels.h"

#include <algorithm>

#include "tensor/cuda/kernels/grid/elementwise.h"
#include "tensor/cuda/kernels/grid/philox.h"
#include "tensor/cuda/kernels/grid/row_packs.h"
#include "tensor/errors/error.h"

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

/// The parameters of a launch, whose packs lie behind each other: parameter i has those from
/// first[i] to first[i + 1].
struct AdamWBatch {
  std::int64_t first[kAdamWParameters + 1];
  AdamWParameter parameters[kAdamWParameters];
};
static_assert(sizeof(AdamWBatch) <= 4096 - sizeof(std::int64_t), "the arguments of a kernel");

/// Four loads of 16 bytes are on their way before the first is used.
template <typename Copy, bool kAligned>
__global__ void __launch_bounds__(kElementThreads)
    adamw_kernel(AdamWBatch batch, std::int64_t packs) {
  using Packs = RowPacks<kUpdated, kAligned>;
  const std::int64_t step = std::int64_t{gridDim.x} * kElementThreads;
  int number = 0;
  for (std::int64_t at = std::int64_t{blockIdx.x} * kElementThreads + threadIdx.x; at < packs;
       at += step) {
    while (at >= batch.first[number + 1]) ++number;
    const AdamWParameter& a = batch.parameters[number];
    const AdamWFactors& f = a.factors;
    const std::int64_t pack = at - batch.first[number];
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

namespace {

bool is_aligned(const AdamWParameter& a) {
  return rows_are_aligned(a.count, kUpdated,
                          {a.gradient, a.w, a.m, a.v, a.w_out, a.m_out, a.v_out, a.copy});
}

/// Launches those parameters for which `is_one` holds.
template <typename Copy, bool kAligned, typename IsOne>
void launch_adamw_of(std::span<const AdamWParameter> parameters, const IsOne& is_one,
                     cudaStream_t stream) {
  constexpr std::int64_t kBlocks = 8;  // for each multiprocessor
  AdamWBatch batch{};
  std::size_t count = 0;
  for (const AdamWParameter& a : parameters) {
    if (a.count == 0 || is_aligned(a) != kAligned || !is_one(a)) continue;
    batch.parameters[count] = a;
    batch.first[count + 1] = batch.first[count] + RowPacks<kUpdated, kAligned>::count(a.count);
    ++count;
  }
  const std::int64_t packs = batch.first[count];
  if (packs == 0) return;
  launch(adamw_kernel<Copy, kAligned>,
         dim3(grid_blocks(divide_up<std::int64_t>(packs, kElementThreads), kBlocks)),
         dim3(kElementThreads), 0, stream, batch, packs);
}

}  // namespace

void launch_adamw(std::span<const AdamWParameter> parameters, cudaStream_t stream) {
  TROUPE_ASSERT(parameters.size() <= kAdamWParameters);
  const auto copies = [](DType dtype) {
    return [dtype](const AdamWParameter& a) { return a.copy && a.copy_dtype == dtype; };
  };
  // What has no copy goes with those that have.
  const auto others = [&](DType dtype) {
    return [is_other = copies(dtype)](const AdamWParameter& a) { return !is_other(a); };
  };
  const bool narrows = std::ranges::any_of(parameters, copies(DType::bf16));
  const bool copies_float = std::ranges::any_of(parameters, copies(DType::f32));
  if (narrows) {
    launch_adamw_of<__nv_bfloat16, true>(parameters, others(DType::f32), stream);
    launch_adamw_of<__nv_bfloat16, false>(parameters, others(DType::f32), stream);
    if (!copies_float) return;
    launch_adamw_of<float, true>(parameters, copies(DType::f32), stream);
    launch_adamw_of<float, false>(parameters, copies(DType::f32), stream);
    return;
  }
  launch_adamw_of<float, true>(parameters, others(DType::bf16), stream);
  launch_adamw_of<float, false>(parameters, others(DType::bf16), stream);
}

}  // namespace troupe::tensor::cuda
