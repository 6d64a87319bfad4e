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
    const std::int64_t choice = sorted[r].token;
    rows.row_of[choice] = static_cast<std::int32_t>(r);
    rows.token_of[r] = static_cast<std::int32_t>(choice / rows.each);
    rows.row_weights[r] = rows.weights[choice];
    const std::int64_t expert = sorted[r].row;
    const std::int64_t before = r == 0 ? -1 : static_cast<std::int64_t>(sorted[r - 1].row);
    for (std::int64_t e = before + 1; e <= expert; ++e)
      rows.offsets[e] = static_cast<std::int32_t>(r);
    if (r + 1 < rows.choices) return;
    for (std::int64_t e = expert + 1; e <= rows.experts; ++e)
      rows.offsets[e] = static_cast<std::int32_t>(rows.choices);
  });
}

template <typename Word>
__global__ void __launch_bounds__(kElementThreads)
    gather_rows_kernel(const Word* x, const std::int32_t* rows, Word* y, std::int64_t count,
                       std::int64_t words) {
  for_each_pack_of_rows<1>(count, words, [&](std::int64_t row, std::int64_t word) {
    y[row * words + word] = x[rows[row] * words + word];
  });
}

template <int n, typename T>
__global__ void __launch_bounds__(kElementThreads)
    sum_rows_kernel(const T* x, const std::int32_t* row_of, std::int64_t each, const T* residual,
                    T* y, std::int64_t tokens, std::int64_t columns) {
  for_each_pack_of_rows<n>(tokens, columns, [&](std::int64_t t, std::int64_t column) {
    const auto add = [&](const T* row, Pack<n>& sum) {
      const Pack<n> values = load<n>(row + column);
#pragma unroll
      for (int j = 0; j < n; ++j) sum[j] += values[j];
    };
    Pack<n> sum = load<n>(x + row_of[t * each] * columns + column);
    for (std::int64_t k = 1; k < each; ++k) add(x + row_of[t * each + k] * columns, sum);
    if (residual) add(residual + t * columns, sum);
    store(sum, y + t * columns + column);
  });
}

template <typename Word>
void launch_gather(const void* x, const std::int32_t* rows, void* y, std::int64_t count,
                   std::size_t bytes, cudaStream_t stream) {
  const auto words = static_cast<std::int64_t>(bytes / sizeof(Word));
  const auto [blocks, threads] = row_launch(count, words);
  launch(gather_rows_kernel<Word>, blocks, threads, 0, stream, static_cast<const Word*>(x), rows,
         static_cast<Word*>(y), count, words);
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
    const auto [blocks, threads] = row_launch(tokens, columns / n);
    launch(sum_rows_kernel<n, T>, blocks, threads, 0, stream, x, row_of, each, residual, y, tokens,
           columns);
  });
}

}  // namespace troupe::tensor::cuda
