#include "tensor/cuda/kernels/embedding/token_order.h"
#include "tensor/cuda/kernels/experts/expert_kernels.h"
#include "tensor/cuda/kernels/grid/elementwise.h"

namespace troupe::tensor::cuda {
namespace {

/// Choice sorted[r].token, of expert sorted[r].row, becomes row r. An expert begins where one
/// before it ends.
__global__ void __launch_bounds__(kElementThreads)
    place_rows_kernel(SortedRows rows, const TokenOfRow* sorted) {
  for_each_item(rows.choices, [&](std::int64_t r) {
    const std::uint32_t choice = sorted[r].token;
    rows.row_of[choice] = static_cast<std::int32_t>(r);
    rows.token_of[r] = static_cast<std::int32_t>(choice / static_cast<std::uint32_t>(rows.each));
    rows.row_weights[r] = rows.weights[choice];
    const std::int64_t expert = sorted[r].row;
    const std::int64_t before = r == 0 ? -1 : static_cast<std::int64_t>(sorted[r - 1].row);
#pragma unroll 1
    for (std::int64_t e = before + 1; e <= expert; ++e)
      rows.offsets[e] = static_cast<std::int32_t>(r);
    if (r + 1 < rows.choices) return;
#pragma unroll 1
    for (std::int64_t e = expert + 1; e <= rows.experts; ++e)
      rows.offsets[e] = static_cast<std::int32_t>(rows.choices);
  });
}

constexpr int kRowThreads = 256;  // of a block, which has one row

template <typename Word>
__global__ void __launch_bounds__(kRowThreads)
    gather_rows_kernel(const Word* x, const std::int32_t* rows, Word* y, std::int64_t words) {
  const Word* const from = x + rows[blockIdx.x] * words;
  Word* const to = y + blockIdx.x * words;
#pragma unroll 1
  for (std::int64_t word = threadIdx.x; word < words; word += kRowThreads) to[word] = from[word];
}

template <int n, typename T>
__device__ __forceinline__ void add(const T* row, Pack<n>& sum) {
  const Pack<n> values = load<n>(row);
#pragma unroll
  for (int j = 0; j < n; ++j) sum[j] += values[j];
}

template <int n, typename T>
__global__ void __launch_bounds__(kRowThreads)
    sum_rows_kernel(const T* x, const std::int32_t* row_of, std::int64_t each, const T* residual,
                    T* y, std::int64_t columns) {
  const std::int64_t token = blockIdx.x;
  const std::int32_t* const rows = row_of + token * each;
#pragma unroll 1
  for (std::int64_t c = std::int64_t{threadIdx.x} * n; c < columns; c += kRowThreads * n) {
    Pack<n> sum = load<n>(x + rows[0] * columns + c);
#pragma unroll 1
    for (std::int64_t k = 1; k < each; ++k) add(x + rows[k] * columns + c, sum);
    if (residual) add(residual + token * columns + c, sum);
    store(sum, y + token * columns + c);
  }
}

template <typename Word>
void launch_gather(const void* x, const std::int32_t* rows, void* y, std::int64_t count,
                   std::size_t bytes, cudaStream_t stream) {
  launch(gather_rows_kernel<Word>, dim3(static_cast<unsigned>(count)), dim3(kRowThreads), 0, stream,
         static_cast<const Word*>(x), rows, static_cast<Word*>(y), bytes / sizeof(Word));
}

Lookup lookup_of(const SortedRows& rows) {
  return {.ids = rows.chosen, .tokens = rows.choices, .rows = rows.experts};
}

}  // namespace

std::size_t sort_rows_scratch(const SortedRows& rows) {
  return token_order_bytes(rows.choices);
}

void launch_sort_rows(const SortedRows& rows, void* scratch, cudaStream_t stream) {
  const TokenOrder order = token_order_in(scratch, rows.choices);
  launch_token_order(lookup_of(rows), order, stream);
  launch(place_rows_kernel, dim3(blocks_for(rows.choices)), dim3(kElementThreads), 0, stream, rows,
         order.sorted);
}

void launch_gather_rows(const void* x, const std::int32_t* rows, void* y, std::int64_t count,
                        std::size_t bytes, cudaStream_t stream) {
  if (bytes % sizeof(uint4) == 0 && are_aligned({x, y}))
    return launch_gather<uint4>(x, rows, y, count, bytes, stream);
  launch_gather<unsigned short>(x, rows, y, count, bytes, stream);
}

void launch_sum_rows(DType dtype, const void* x, const std::int32_t* row_of, std::int64_t each,
                     const void* residual, void* y, std::int64_t tokens, std::int64_t columns,
                     cudaStream_t stream) {
  with_pack(dtype, columns, {x, residual, y}, [&]<typename T, int n>(PackOf<T, n>) {
    launch(sum_rows_kernel<n, T>, dim3(static_cast<unsigned>(tokens)), dim3(kRowThreads), 0, stream,
           x, row_of, each, residual, y, columns);
  });
}

}  // namespace troupe::tensor::cuda
