#include "tensor/cuda/kernels/embedding/token_order.h"

#include <bit>

#include "tensor/cuda/kernels/grid/launch_shape.h"

namespace troupe::tensor::cuda {
namespace {

constexpr int kMostThreads = 1024;
constexpr int kDigitBits = 4;
constexpr int kDigits = 1 << kDigitBits;  // values of a digit

/// The place of an entry of the table of counts. The gaps keep the entries that a warp touches at
/// once in different banks of shared memory, along a digit and along a thread.
__device__ __forceinline__ unsigned place_of(unsigned entry) {
  return entry + entry / kDigits;
}

/// The sum of x over the threads before this one. All threads of the block come here; `shared` has
/// a place for each warp.
template <typename Shared>
__device__ __forceinline__ unsigned sum_before(unsigned x, Shared& shared, unsigned& total) {
  unsigned sum = x;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (unsigned distance = 1; distance < 32; distance *= 2) {
    const unsigned other = __shfl_up_sync(0xffffffffu, sum, distance);
    if (lane >= distance) sum += other;
  }
  if (lane == 31) shared[warp] = sum;
  __syncthreads();
  unsigned before = 0;
  total = 0;
  for (unsigned i = 0; i < blockDim.x / 32; ++i) {
    const unsigned warps_sum = shared[i];
    if (i < warp) before += warps_sum;
    total += warps_sum;
  }
  __syncthreads();  // `shared` is free again
  return before + sum - x;
}

/// The tokens that one thread takes, in their order.
struct Share {
  unsigned begin, end;
};

__device__ __forceinline__ Share share_of(const Lookup& lookup) {
  const auto tokens = static_cast<unsigned>(lookup.tokens);
  const unsigned each = (tokens + blockDim.x - 1) / blockDim.x;
  return {min(tokens, threadIdx.x * each), min(tokens, (threadIdx.x + 1) * each)};
}

/// Calls body(token) for the tokens of a share, in their order; several are on their way at a time.
template <typename Body>
__device__ __forceinline__ void for_each_token(const Share& share, const TokenOfRow* tokens,
                                               const Body& body) {
  constexpr unsigned kAtOnce = 4;
  for (unsigned first = share.begin; first < share.end; first += kAtOnce) {
    TokenOfRow next[kAtOnce];
#pragma unroll
    for (unsigned k = 0; k < kAtOnce; ++k) {
      if (first + k < share.end) next[k] = tokens[first + k];
    }
#pragma unroll
    for (unsigned k = 0; k < kAtOnce; ++k) {
      if (first + k < share.end) body(next[k]);
    }
  }
}

/// Sorts by one digit, stably: counts[digit, thread] become the places of the thread's first token
/// of each digit. Barriers around it separate it from other uses of the arrays.
template <typename Shared>
__device__ __forceinline__ void sort_by_digit(const Share& share, int shift, const TokenOfRow* from,
                                              TokenOfRow* to, Shared& warp_sums) {
  unsigned* const counts = dynamic_shared<unsigned>();
  const auto own = [&](unsigned digit) { return place_of(digit * blockDim.x + threadIdx.x); };
  const auto digit_of = [&](const TokenOfRow& x) { return (x.row >> shift) % kDigits; };
  for (unsigned digit = 0; digit < kDigits; ++digit) counts[own(digit)] = 0;
  for_each_token(share, from, [&](const TokenOfRow& x) { ++counts[own(digit_of(x))]; });
  __syncthreads();
  // The sums before each entry in the order of entries, of which every thread has kDigits.
  const unsigned first = threadIdx.x * kDigits;
  unsigned sum = 0, all;
  for (unsigned i = 0; i < kDigits; ++i) sum += counts[place_of(first + i)];
  unsigned before = sum_before(sum, warp_sums, all);
  for (unsigned i = 0; i < kDigits; ++i) {
    const unsigned count = counts[place_of(first + i)];
    counts[place_of(first + i)] = before;
    before += count;
  }
  __syncthreads();
  for_each_token(share, from, [&](const TokenOfRow& x) { to[counts[own(digit_of(x))]++] = x; });
  __syncthreads();
}

/// Writes where the runs of equal rows begin, and how many they are.
template <typename Shared>
__device__ __forceinline__ void find_runs(const Share& share, const TokenOfRow* sorted,
                                          const Lookup& lookup, const TokenOrder& order,
                                          Shared& warp_sums) {
  const auto none = static_cast<std::uint32_t>(lookup.rows);
  const auto begins = [&](unsigned i) {
    return sorted[i].row != none && (i == 0 || sorted[i - 1].row != sorted[i].row);
  };
  unsigned known = 0, heads = 0, all_known, all_heads;
  for (unsigned i = share.begin; i < share.end; ++i) {
    if (sorted[i].row != none) ++known;
    if (begins(i)) ++heads;
  }
  sum_before(known, warp_sums, all_known);
  unsigned run = sum_before(heads, warp_sums, all_heads);
  for (unsigned i = share.begin; i < share.end; ++i) {
    if (begins(i)) order.starts[run++] = i;
  }
  if (threadIdx.x != 0) return;
  order.starts[all_heads] = all_known;
  *order.runs = all_heads;
}

/// Entries of the table of counts, with their gaps.
__host__ __device__ constexpr unsigned table_entries(unsigned threads) {
  return threads * (kDigits + 1);
}

/// Sorts in `passes` passes, in shared memory behind the table of counts if `in_shared`; else in
/// global memory, where the last pass ends in order.sorted.
__global__ void __launch_bounds__(kMostThreads)
    token_order_kernel(Lookup lookup, TokenOrder order, int passes, bool in_shared) {
  SHARED(unsigned, warp_sums, kMostThreads / 32);
  const auto tokens = static_cast<unsigned>(lookup.tokens);
  TokenOfRow *from = passes % 2 == 0 ? order.sorted : order.other,
             *to = passes % 2 == 0 ? order.other : order.sorted;
  if (in_shared) {
    from = reinterpret_cast<TokenOfRow*>(dynamic_shared<unsigned>() + table_entries(blockDim.x));
    to = from + tokens;
  }
  for (unsigned t = threadIdx.x; t < tokens; t += blockDim.x) {
    const std::int64_t row = lookup.ids[t] - lookup.first;
    const bool known = row >= 0 && row < lookup.rows;
    from[t] = {t, static_cast<std::uint32_t>(known ? row : lookup.rows)};
  }
  __syncthreads();
  const Share share = share_of(lookup);
  for (int pass = 0; pass < passes; ++pass) {
    sort_by_digit(share, pass * kDigitBits, from, to, warp_sums);
    TokenOfRow* const sorted = to;
    to = from;
    from = sorted;
  }
  if (in_shared) {
    for (unsigned t = threadIdx.x; t < tokens; t += blockDim.x) order.sorted[t] = from[t];
  }
  find_runs(share, from, lookup, order, warp_sums);
}

std::size_t aligned(std::size_t bytes) {
  return divide_up<std::size_t>(bytes, 16) * 16;
}

}  // namespace

std::size_t token_order_bytes(std::int64_t tokens) {
  const auto n = static_cast<std::size_t>(tokens);
  return 2 * aligned(n * sizeof(TokenOfRow)) + aligned((n + 1) * sizeof(std::uint32_t)) +
         sizeof(std::uint32_t);
}

TokenOrder token_order_in(void* memory, std::int64_t tokens) {
  const auto n = static_cast<std::size_t>(tokens);
  auto* next = static_cast<std::byte*>(memory);
  const auto take = [&](std::size_t bytes) {
    std::byte* const taken = next;
    next += aligned(bytes);
    return taken;
  };
  TokenOrder order;
  order.sorted = reinterpret_cast<TokenOfRow*>(take(n * sizeof(TokenOfRow)));
  order.other = reinterpret_cast<TokenOfRow*>(take(n * sizeof(TokenOfRow)));
  order.starts = reinterpret_cast<std::uint32_t*>(take((n + 1) * sizeof(std::uint32_t)));
  order.runs = reinterpret_cast<std::uint32_t*>(take(sizeof(std::uint32_t)));
  return order;
}

void launch_token_order(const Lookup& lookup, const TokenOrder& order, cudaStream_t stream) {
  constexpr std::int64_t kTokensOfAThread = 8;  // at least, if there are so many
  const std::int64_t wanted = divide_up(lookup.tokens, kTokensOfAThread);
  const unsigned threads = whole_warps(std::clamp<std::int64_t>(wanted, 1, kMostThreads));
  // Keys are 0 to `rows`.
  const int bits = std::bit_width(static_cast<std::uint64_t>(lookup.rows));
  const std::size_t table = table_entries(threads) * sizeof(unsigned);
  const std::size_t arrays = 2 * static_cast<std::size_t>(lookup.tokens) * sizeof(TokenOfRow);
  const bool in_shared = table + arrays + kMostStaticBesideDynamic <= shared_limit(stream);
  launch(token_order_kernel, dim3(1), dim3(threads), in_shared ? table + arrays : table, stream,
         lookup, order, divide_up(bits, kDigitBits), in_shared);
}

}  // namespace troupe::tensor::cuda
