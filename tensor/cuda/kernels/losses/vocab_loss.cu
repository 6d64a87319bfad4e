#include "tensor/cuda/kernels/grid/dispatch.h"
#include "tensor/cuda/kernels/grid/row_sums.h"
#include "tensor/cuda/kernels/losses/loss_kernels.h"
#include "tensor/cuda/kernels/losses/vocab_rows.h"
#include "tensor/cuda/kernels/rows/reduction_kernels.h"

namespace troupe::tensor::cuda {
namespace {

constexpr int kTokenThreads = 128;

template <bool kAligned>
__global__ void __launch_bounds__(kVocabThreads)
    vocab_max_kernel(VocabShard shard, const float* logits, float* to) {
  SHARED(float, shared, 2 * kVocabWarps);
  unsigned turn = 0;
  const int columns = static_cast<int>(shard.columns), valid = static_cast<int>(shard.valid);
  for (std::int64_t row = blockIdx.x; row < shard.rows; row += gridDim.x) {
    float max = kMinusInfinity;
    visit_packs<kAligned>(logits + row * columns, columns, 0,
                          [&](int pack, const Pack<kVocabPack>& v) {
#pragma unroll
                            for (int i = 0; i < kVocabPack; ++i) {
                              const int c = RowPacks<kVocabPack, kAligned>::column(pack, i);
                              if (c < valid) max = fmaxf(max, v[i]);
                            }
                          });
    max = warp_max(max);
    const unsigned first = turn * kVocabWarps;
    turn ^= 1;
    if (threadIdx.x % 32 == 0) shared[first + threadIdx.x / 32] = max;
    __syncthreads();
    if (threadIdx.x != 0) continue;
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) max = fmaxf(max, shared[first + warp]);
    to[row] = max;
  }
}

template <bool kAligned>
__global__ void __launch_bounds__(kVocabThreads)
    vocab_sums_kernel(VocabShard shard, float* logits, const std::int32_t* targets,
                      const float* maxima, bool with_shifted, float* sums) {
  SHARED(float, shared, kRowSumElements);
  unsigned turn = 0;
  const int columns = static_cast<int>(shard.columns), valid = static_cast<int>(shard.valid);
  for (std::int64_t row = blockIdx.x; row < shard.rows; row += gridDim.x) {
    float* const own = logits + row * columns;
    const float max = maxima[row];
    const std::int64_t target = targets[row] - shard.first_class;
    if (is_own<kAligned>(target, columns)) {
      sums[shard.rows + row] = target >= 0 && target < valid ? own[target] - max : 0.0f;
    }
    float of_row[2] = {};  // of the exponentials, and of what they are the exponentials of
    visit_packs<kAligned>(own, columns, 0, [&](int pack, Pack<kVocabPack> v) {
#pragma unroll
      for (int i = 0; i < kVocabPack; ++i) {
        const float shifted = v[i] - max;
        const bool is_class = RowPacks<kVocabPack, kAligned>::column(pack, i) < valid;
        v[i] = is_class ? expf(shifted) : 0.0f;
        of_row[0] += v[i];
        if (is_class) of_row[1] += shifted;
      }
      RowPacks<kVocabPack, kAligned>::store(v, own, pack, columns);
    });
    row_sums(of_row, shared, turn);
    if (threadIdx.x != 0) continue;
    sums[row] = of_row[0];
    if (with_shifted) sums[2 * shard.rows + row] = of_row[1];
  }
}

/// The logarithm of the probability of a row's target.
__device__ __forceinline__ double log_p_of(const VocabEntropy& a, std::int64_t row) {
  return a.sums[a.shard.rows + row] - log(static_cast<double>(a.sums[row]));
}

__global__ void __launch_bounds__(kTokenThreads)
    token_losses_kernel(VocabEntropy a, double* losses) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; row < a.shard.rows; row += step) {
    const std::int32_t target = a.targets[row];
    double loss = 0;
    if (target != a.ignored) {
      const double log_p = log_p_of(a, row), s = a.smoothing;
      double mean_log_p = 0;
      if (s > 0) {
        const double mean = a.sums[2 * a.shard.rows + row] / static_cast<double>(a.classes);
        mean_log_p = mean - log(static_cast<double>(a.sums[row]));
      }
      loss = -((1 - s) * log_p + s * mean_log_p);
      if (target < 0 || target >= a.classes) loss = __uint_as_float(0x7fffffffu);  // NaN
    }
    losses[row] = loss;
  }
}

template <typename T, bool kAligned>
__global__ void __launch_bounds__(kVocabThreads) vocab_gradient_kernel(VocabEntropy a) {
  const int columns = static_cast<int>(a.shard.columns), valid = static_cast<int>(a.shard.valid);
  const double share = a.smoothing / static_cast<double>(a.classes);
  for (std::int64_t row = blockIdx.x; row < a.shard.rows; row += gridDim.x) {
    const std::int32_t target = a.targets[row];
    const bool counts = target != a.ignored;
    const float factor = counts ? a.scale / a.sums[row] : 0.0f;
    const float subtracted = counts ? static_cast<float>(a.scale * share) : 0.0f;
    T* const dlogits = static_cast<T*>(a.dlogits) + row * columns;
    visit_packs<kAligned>(
        a.exponentials + row * columns, columns, 0, [&](int pack, Pack<kVocabPack> v) {
#pragma unroll
          for (int i = 0; i < kVocabPack; ++i) {
            const bool is_class = RowPacks<kVocabPack, kAligned>::column(pack, i) < valid;
            v[i] = is_class ? v[i] * factor - subtracted : 0.0f;
          }
          RowPacks<kVocabPack, kAligned>::store(v, dlogits, pack, columns);
        });
    const std::int64_t column = target - a.shard.first_class;
    if (!counts || column < 0 || column >= valid || !is_own<kAligned>(column, columns)) continue;
    // expm1: no digits cancel if the target's probability is near 1.
    const double at_target = a.scale * (expm1(log_p_of(a, row)) + a.smoothing - share);
    dlogits[column] = from_float32<T>(static_cast<float>(at_target));
  }
}

}  // namespace

void launch_vocab_max(const VocabShard& shard, const float* logits, float* max,
                      cudaStream_t stream) {
  const VocabLaunch shape(shard.rows, shard.columns);
  with_constant(rows_are_aligned(shard.columns, kVocabPack, {logits}), [&](auto aligned) {
    launch(vocab_max_kernel<aligned()>, dim3(shape.blocks), dim3(shape.threads), 0, stream, shard,
           logits, max);
  });
}

void launch_vocab_sums(const VocabShard& shard, float* logits, const std::int32_t* targets,
                       const float* max, bool with_shifted, float* sums, cudaStream_t stream) {
  const VocabLaunch shape(shard.rows, shard.columns);
  with_constant(rows_are_aligned(shard.columns, kVocabPack, {logits}), [&](auto aligned) {
    launch(vocab_sums_kernel<aligned()>, dim3(shape.blocks), dim3(shape.threads), 0, stream, shard,
           logits, targets, max, with_shifted, sums);
  });
}

void launch_vocab_loss(const VocabEntropy& a, double* loss, void* scratch, cudaStream_t stream) {
  auto* const losses = static_cast<double*>(scratch);
  const std::int64_t rows = a.shard.rows;
  launch(token_losses_kernel,
         dim3(grid_blocks(divide_up<std::int64_t>(rows, kTokenThreads), kVocabBlocks)),
         dim3(kTokenThreads), 0, stream, a, losses);
  launch_sum(losses, rows, loss, stream);
  if (!a.dlogits) return;
  const VocabLaunch shape(rows, a.shard.columns);
  with_act_type(a.gradient_dtype, [&]<typename T>(Type<T>) {
    const bool aligned = rows_are_aligned(a.shard.columns, kVocabPack, {a.exponentials, a.dlogits});
    with_constant(aligned, [&](auto is_aligned) {
      launch(vocab_gradient_kernel<T, is_aligned()>, dim3(shape.blocks), dim3(shape.threads), 0,
             stream, a);
    });
  });
}

}  // namespace troupe::tensor::cuda
