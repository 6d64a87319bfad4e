#include "tensor/cuda/kernels/experts/expert_kernels.h"
#include "tensor/cuda/kernels/grid/elementwise.h"
#include "tensor/cuda/kernels/grid/row_sums.h"

namespace troupe::tensor::cuda {
namespace {

constexpr unsigned kLanes = 32;
constexpr unsigned kTokens = kElementThreads / kLanes;  // of a block, a warp for each

/// Calls body(token) for the tokens of this thread's warp.
template <typename Body>
__device__ __forceinline__ void for_each_token(std::int64_t tokens, const Body& body) {
#pragma unroll 1
  for (std::int64_t t = std::int64_t{blockIdx.x} * kTokens + threadIdx.y; t < tokens;
       t += std::int64_t{gridDim.x} * kTokens)
    body(t);
}

/// The place of a probability in the order of choice, which none shares: larger is chosen first,
/// NaNs above all, of equal ones the lower expert.
__device__ __forceinline__ unsigned long long key_of(float p, std::int64_t expert) {
  return (static_cast<unsigned long long>(__float_as_uint(p)) << 32) |
         (0xffffffffu - static_cast<unsigned>(expert));
}

__device__ __forceinline__ unsigned long long warp_most(unsigned long long x) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    const unsigned long long other = __shfl_xor_sync(0xffffffffu, x, lanes);
    x = other > x ? other : x;
  }
  return x;
}

/// The sum that a token's weights are divided by.
__device__ __forceinline__ float divisor_of(const RouterShape& router, const float* p,
                                            const std::int32_t* chosen) {
  if (!router.normalizes) return 1.0f;
  float sum = 0.0f;
#pragma unroll 1
  for (std::int64_t k = 0; k < router.chosen; ++k) sum += p[chosen[k]];
  return sum;
}

/// By one warp: chosen[K] = the experts of the largest p, ascending.
__device__ __forceinline__ void choose(const RouterShape& router, const float* p,
                                       std::int32_t* chosen) {
  unsigned long long before = ~0ull;  // above all keys
#pragma unroll 1
  for (std::int64_t k = 0; k < router.chosen; ++k) {
    unsigned long long most = 0;
#pragma unroll 1
    for (std::int64_t e = threadIdx.x; e < router.experts; e += kLanes) {
      const unsigned long long key = key_of(p[e], e);
      if (key < before && key > most) most = key;
    }
    before = warp_most(most);
    if (threadIdx.x != 0) continue;
    const auto expert = static_cast<std::int32_t>(0xffffffffu - static_cast<unsigned>(before));
    std::int64_t place = k;
#pragma unroll 1
    for (; place > 0 && chosen[place - 1] > expert; --place) chosen[place] = chosen[place - 1];
    chosen[place] = expert;
  }
}

__global__ void __launch_bounds__(kElementThreads)
    route_kernel(RoutedTokens to, const float* logits) {
  const RouterShape& router = to.router;
  for_each_token(to.tokens, [&](std::int64_t t) {
    const float* const z = logits + t * router.experts;
    float* const p = to.probs + t * router.experts;
    float most = -INFINITY, sum = 0.0f;
#pragma unroll 1
    for (std::int64_t e = threadIdx.x; e < router.experts; e += kLanes) most = fmaxf(most, z[e]);
    most = warp_max(most);
#pragma unroll 1
    for (std::int64_t e = threadIdx.x; e < router.experts; e += kLanes) {
      p[e] = expf(z[e] - most);
      sum += p[e];
    }
    sum = warp_sum(sum);
#pragma unroll 1
    for (std::int64_t e = threadIdx.x; e < router.experts; e += kLanes) p[e] /= sum;
    std::int32_t* const chosen = to.chosen + t * router.chosen;
    choose(router, p, chosen);
    __syncwarp();
    if (threadIdx.x == 0) {
      const float divisor = divisor_of(router, p, chosen);
#pragma unroll 1
      for (std::int64_t k = 0; k < router.chosen; ++k)
        to.weights[t * router.chosen + k] = p[chosen[k]] / divisor;
      if (to.lse) to.lse[t] = most + logf(sum);
    }
    __syncwarp();
  });
}

__global__ void __launch_bounds__(kElementThreads)
    route_backward_kernel(RoutedTokens from, const float* dweights, const float* balance, float z,
                          float* dlogits) {
  const RouterShape& router = from.router;
  for_each_token(from.tokens, [&](std::int64_t t) {
    const float* const p = from.probs + t * router.experts;
    const std::int32_t* const chosen = from.chosen + t * router.chosen;
    const float* const weights = from.weights + t * router.chosen;
    const float* const gradient = dweights + t * router.chosen;
    const bool counts = !from.counted || from.counted[t] != 0;
    const float* const own_balance = counts ? balance : nullptr;
    const float divisor = divisor_of(router, p, chosen);
    float dot = 0.0f;  // through the division by the sum
#pragma unroll 1
    for (std::int64_t k = 0; k < router.chosen && router.normalizes; ++k)
      dot += gradient[k] * weights[k];
    float sum = 0.0f;
#pragma unroll 1
    for (std::int64_t k = threadIdx.x; k < router.chosen; k += kLanes)
      sum += p[chosen[k]] * ((gradient[k] - dot) / divisor);
#pragma unroll 1
    for (std::int64_t e = threadIdx.x; e < router.experts && own_balance; e += kLanes)
      sum += p[e] * own_balance[e];
    sum = warp_sum(sum);  // from here on a lane reads what it writes alone
    const float common = (counts && z != 0.0f ? z * from.lse[t] : 0.0f) - sum;
#pragma unroll 1
    for (std::int64_t e = threadIdx.x; e < router.experts; e += kLanes) {
      float dp = common + (own_balance ? own_balance[e] : 0.0f);
#pragma unroll 1
      for (std::int64_t k = 0; k < router.chosen; ++k)
        if (chosen[k] == e) dp += (gradient[k] - dot) / divisor;
      dlogits[t * router.experts + e] = p[e] * dp;
    }
    __syncwarp();
  });
}

/// The sum over the block's threads, in all of them; `shared` has a place for each warp.
template <typename Shared>
__device__ __forceinline__ double block_sum(double x, Shared& shared) {
  x = warp_sum(x);
  if (threadIdx.x % kLanes == 0) shared[threadIdx.x / kLanes] = x;
  __syncthreads();
  double sum = 0;
#pragma unroll 1
  for (unsigned warp = 0; warp < kElementThreads / kLanes; ++warp) sum += shared[warp];
  __syncthreads();  // `shared` is free again
  return sum;
}

/// A block for each expert, and one for what is of all.
__global__ void __launch_bounds__(kElementThreads)
    router_load_kernel(RoutedTokens from, float* load) {
  SHARED(double, shared, kElementThreads / kLanes);
  const std::int64_t experts = from.router.experts, each = from.router.chosen;
  const std::int64_t expert = blockIdx.x;
  const bool is_last = expert == experts;
  double tokens = 0, first = 0, second = 0;
#pragma unroll 1
  for (std::int64_t t = threadIdx.x; t < from.tokens; t += kElementThreads) {
    if (from.counted && from.counted[t] == 0) continue;
    ++tokens;
    const float* const p = from.probs + t * experts;
    if (is_last && from.lse) second += static_cast<double>(from.lse[t]) * from.lse[t];
    if (!is_last) second += p[expert];
    const std::int64_t terms = is_last ? experts : each;
#pragma unroll 1
    for (std::int64_t i = 0; i < terms; ++i) {
      if (!is_last)
        first += from.chosen[t * each + i] == expert ? 1 : 0;
      else if (p[i] != 0.0f)
        first -= p[i] * logf(p[i]);
    }
  }
  tokens = block_sum(tokens, shared);
  first = block_sum(first, shared);
  second = block_sum(second, shared);
  if (threadIdx.x != 0) return;
  const double divisor = tokens > 0 ? tokens : 1;
  load[is_last ? 2 * experts : expert] = static_cast<float>(first / divisor);
  load[is_last ? 2 * experts + 1 : experts + expert] = static_cast<float>(second / divisor);
}

/// By one warp, from what router_load_kernel() left.
__global__ void __launch_bounds__(kLanes) balance_kernel(float* load, std::int64_t experts) {
  double sum = 0;
#pragma unroll 1
  for (std::int64_t e = threadIdx.x; e < experts; e += kLanes)
    sum += static_cast<double>(load[e]) * load[experts + e];
  sum = warp_sum(sum);
  if (threadIdx.x == 0) load[2 * experts + 2] = static_cast<float>(experts * sum);
}

dim3 blocks_of(std::int64_t tokens) {
  return dim3(blocks_for(tokens * kLanes));
}

}  // namespace

void launch_route(const RoutedTokens& to, const float* logits, cudaStream_t stream) {
  launch(route_kernel, blocks_of(to.tokens), dim3(kLanes, kTokens), 0, stream, to, logits);
}

void launch_route_backward(const RoutedTokens& from, const float* dweights, const float* balance,
                           float z, float* dlogits, cudaStream_t stream) {
  launch(route_backward_kernel, blocks_of(from.tokens), dim3(kLanes, kTokens), 0, stream, from,
         dweights, balance, z, dlogits);
}

void launch_router_load(const RoutedTokens& from, float* load, cudaStream_t stream) {
  launch(router_load_kernel, dim3(static_cast<unsigned>(from.router.experts + 1)),
         dim3(kElementThreads), 0, stream, from, load);
  launch(balance_kernel, dim3(1), dim3(kLanes), 0, stream, load, from.router.experts);
}

}  // namespace troupe::tensor::cuda
