#include "tensor/cuda/kernels/grid/dispatch.h"
#include "tensor/cuda/kernels/grid/row_sums.h"
#include "tensor/cuda/kernels/losses/loss_kernels.h"
#include "tensor/cuda/kernels/losses/vocab_rows.h"
#include "tensor/cuda/kernels/rows/reduction_kernels.h"

namespace troupe::tensor::cuda {
namespace {

constexpr std::int64_t kPackBytes = kVocabPack * sizeof(float);

/// The maximum of some numbers, and the sum of exp(number - max). A NaN may get lost in the
/// maximum, but not in the sum.
struct SumOfExponentials {
  float max, sum;

  /// exp(x - max), also where both are the same infinity because no number is larger.
  __device__ __forceinline__ float rescaled(float to) const {
    return max == to ? sum : sum * expf(max - to);
  }

  __device__ __forceinline__ void add(const Pack<kVocabPack>& values) {
    const float largest = fmaxf(fmaxf(values[0], values[1]), fmaxf(values[2], values[3]));
    if (largest > max) {
      sum = rescaled(largest);
      max = largest;
    }
    const float shift = max == kMinusInfinity ? 0.0f : max;
#pragma unroll
    for (int i = 0; i < kVocabPack; ++i) sum += expf(values[i] - shift);
  }
};

/// Shared memory of a block for the beginning of its row, such that two blocks fit into a
/// multiprocessor. It has 1 KiB more than a block may have at most, and takes as much for each
/// block itself.
std::int64_t kept_bytes(cudaStream_t stream) {
  constexpr std::size_t kMore = 1024;
  return static_cast<std::int64_t>((shared_limit(stream) + kMore) / kVocabBlocks - kMore -
                                   kMostStaticBesideDynamic);
}

/// Joins what the block's threads have, in their order. `turn` as for row_sums().
template <typename Shared>
__device__ __forceinline__ SumOfExponentials join(SumOfExponentials own, Shared& maxima,
                                                  Shared& sums, unsigned& turn) {
  const float warps_max = warp_max(own.max);
  own = {warps_max, warp_sum(own.rescaled(warps_max))};
  const unsigned warps = blockDim.x / 32;
  if (warps == 1) return own;
  const unsigned first = turn * kVocabWarps;
  turn ^= 1;
  if (threadIdx.x % 32 == 0) {
    maxima[first + threadIdx.x / 32] = own.max;
    sums[first + threadIdx.x / 32] = own.sum;
  }
  __syncthreads();
  float max = maxima[first], sum = 0;
  for (unsigned warp = 1; warp < warps; ++warp) max = fmaxf(max, maxima[first + warp]);
  for (unsigned warp = 0; warp < warps; ++warp)
    sum += SumOfExponentials{maxima[first + warp], sums[first + warp]}.rescaled(max);
  return {max, sum};
}

/// One pass over memory for as much of a row as `kept` packs of each thread hold, and a second one
/// for the rest, from its end, which is the likeliest to be in the cache still.
template <typename T, bool kAligned>
__global__ void __launch_bounds__(kVocabThreads, kVocabBlocks)
    cross_entropy_kernel(CrossEntropy a, double* losses, int kept) {
  using Packs = RowPacks<kVocabPack, kAligned>;
  SHARED(float, maxima, 2 * kVocabWarps);
  SHARED(float, sums, 2 * kVocabWarps);
  // Each thread uses its own packs alone.
  auto* const shared = dynamic_shared<RawPack<float, kVocabPack>>();
  unsigned turn = 0;
  const int columns = static_cast<int>(a.columns), stride = static_cast<int>(blockDim.x);
  const int packs = Packs::count(columns);
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const float* const logits = a.logits + row * columns;
    const std::int32_t target = a.targets[row];
    const bool counts = target != a.ignored;
    const bool is_class = target >= 0 && target < columns;
    const bool has_target = is_own<kAligned>(target, columns);
    float at_target = __uint_as_float(0x7fffffffu);  // NaN
    if (has_target && is_class) at_target = logits[target];
    SumOfExponentials own{kMinusInfinity, 0};
    visit_packs<kAligned>(logits, columns, 0, [&](int pack, Pack<kVocabPack> v) {
#pragma unroll
      for (int i = 0; i < kVocabPack; ++i) {
        if (!Packs::has(pack, i, columns)) v[i] = kMinusInfinity;
      }
      if (pack < kept * stride) shared[pack] = narrow<float>(v);
      own.add(v);
    });
    const SumOfExponentials all = join(own, maxima, sums, turn);
    double log_sum = 0;
    if (has_target) {
      log_sum = log(static_cast<double>(all.sum));
      losses[row] = counts ? log_sum + (static_cast<double>(all.max) - at_target) : 0.0;
    }
    if (!a.dlogits) continue;
    T* const dlogits = static_cast<T*>(a.dlogits) + row * columns;
    const float factor = a.scale / all.sum;
    const auto write = [&](int pack, Pack<kVocabPack> v) {
#pragma unroll
      for (int i = 0; i < kVocabPack; ++i) v[i] = counts ? expf(v[i] - all.max) * factor : 0.0f;
      Packs::store(v, dlogits, pack, columns);
    };
    visit_packs<kAligned, true>(logits, columns, kept, write);
    for (int pack = static_cast<int>(threadIdx.x); pack < min(packs, kept * stride);
         pack += stride) {
      write(pack, widen(shared[pack]));
    }
    if (!has_target || !is_class) continue;
    // expm1: no digits cancel if the target's probability is near 1.
    const double log_p = static_cast<double>(at_target) - all.max - log_sum;
    dlogits[target] = from_float32<T>(static_cast<float>(a.scale * expm1(log_p)));
  }
}

}  // namespace

std::size_t loss_scratch(std::int64_t rows) {
  return static_cast<std::size_t>(rows) * sizeof(double);
}

void launch_cross_entropy(const CrossEntropy& a, double* loss, void* scratch, cudaStream_t stream) {
  auto* const losses = static_cast<double*>(scratch);
  const VocabLaunch shape(a.rows, a.columns);
  with_act_type(a.gradient_dtype, [&]<typename T>(Type<T>) {
    with_constant(
        rows_are_aligned(a.columns, kVocabPack, {a.logits, a.dlogits}), [&](auto aligned) {
          const std::int64_t packs = RowPacks<kVocabPack, aligned()>::count(a.columns);
          const std::int64_t kept = std::min(divide_up<std::int64_t>(packs, shape.threads),
                                             kept_bytes(stream) / kPackBytes / shape.threads);
          const std::int64_t used = a.dlogits ? kept : 0;
          launch(cross_entropy_kernel<T, aligned()>, dim3(shape.blocks), dim3(shape.threads),
                 static_cast<std::size_t>(used * shape.threads * kPackBytes), stream, a, losses,
                 static_cast<int>(used));
        });
  });
  launch_sum(losses, a.rows, loss, stream);
}

}  // namespace troupe::tensor::cuda
