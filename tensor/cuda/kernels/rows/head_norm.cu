#include "tensor/cuda/kernels/grid/dispatch.h"
#include "tensor/cuda/kernels/grid/launch_shape.h"
#include "tensor/cuda/kernels/grid/row_packs.h"
#include "tensor/cuda/kernels/grid/row_sums.h"
#include "tensor/cuda/kernels/rows/head_norm_kernels.h"
#include "tensor/cuda/kernels/rows/norm_row.h"
#include "tensor/cuda/kernels/rows/reduction_kernels.h"

// A row is here a head of a token: threads.x threads of a block read its packs again for every use.
// With n = x rstd and g = dy (plus + w): dx = rstd (g - n mean(g n)), dw = the sums of dy n over
// all rows.

namespace troupe::tensor::cuda {
namespace {

constexpr std::int64_t kForwardBlocks = 4, kBackwardBlocks = 2;  // for each multiprocessor

__host__ __device__ __forceinline__ std::int64_t rows_of(const NormedHeads& x) {
  return x.tokens * x.heads;
}

/// The first element of a row in a matrix that x's columns are of.
__device__ __forceinline__ std::int64_t begin_of(const NormedHeads& x, std::int64_t row) {
  return row / x.heads * x.stride + x.first + row % x.heads * x.dim;
}

/// What a row's sum of squares makes of the row.
__device__ __forceinline__ float rstd_of(const NormedHeads& x, float squares) {
  return 1.0f / sqrtf(squares / static_cast<float>(x.width) + x.eps);
}

/// This thread's share of a row's sums: of squares, and of dy (plus + w) x if there are two.
template <bool kAligned, typename T, int kSums>
__device__ __forceinline__ void add_row(const NormedHeads& of, const T* dy, const T* x, int packs,
                                        float (&sums)[kSums]) {
  using Packs = RowPacks<kPack<T>, kAligned>;
  const int dim = static_cast<int>(of.dim);
  for (int pack = static_cast<int>(threadIdx.x); pack < packs;
       pack += static_cast<int>(blockDim.x)) {
    const auto values = Packs::load(x, pack, dim);
    add_squares<kAligned>(sums[0], values, 0.0f, pack, dim);
    if constexpr (kSums == 2) {
      const auto gradient = Packs::load(dy, pack, dim);  // zero past the row's end
      const auto w = load_weights<false, kAligned, kPack<T>>(of.w, of.plus, pack, dim);
#pragma unroll
      for (int i = 0; i < kPack<T>; ++i) sums[1] += gradient[i] * w[i] * values[i];
    }
  }
}

/// Calls body(row, packs of the row) for the rows that this thread works on. All threads of a block
/// go round together; there are no packs of a row that does not exist.
template <bool kAligned, typename T, typename Body>
__device__ __forceinline__ void for_each_row(const NormedHeads& x, const Body& body) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.y;
  std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  for (; row - threadIdx.y < rows_of(x); row += step)
    body(row, row < rows_of(x) ? RowPacks<kPack<T>, kAligned>::count(static_cast<int>(x.dim)) : 0);
}

template <typename T, bool kAligned>
__global__ void __launch_bounds__(RowShape::kMostThreads)
    head_norm_kernel(const NormedHeads of, T* y) {
  using Packs = RowPacks<kPack<T>, kAligned>;
  SHARED(float, shared, kRowSumElements);
  unsigned turn = 0;
  const int dim = static_cast<int>(of.dim);
  for_each_row<kAligned, T>(of, [&](std::int64_t row, int packs) {
    const std::int64_t begin = begin_of(of, row);
    const T* const x = static_cast<const T*>(of.x) + begin;
    float squares[1] = {};
    if (of.squares) {
      if (packs > 0) squares[0] = of.squares[row];
    } else {
      add_row<kAligned>(of, x, x, packs, squares);
      row_sums(squares, shared, turn);
    }
    const float rstd = rstd_of(of, squares[0]);
    for (int pack = static_cast<int>(threadIdx.x); pack < packs;
         pack += static_cast<int>(blockDim.x)) {
      auto values = Packs::load(x, pack, dim);
      const auto w = load_weights<false, kAligned, kPack<T>>(of.w, of.plus, pack, dim);
      normalize<false>(values, 0.0f, rstd, w, w);
      Packs::store(values, y + begin, pack, dim);
    }
  });
}

/// Block i writes its rows' part of dw to partial[i, dim]. Until then it is in shared memory, of
/// which each thread has the columns of its packs.
template <typename T, bool kAligned>
__global__ void __launch_bounds__(RowShape::kMostThreads)
    head_norm_backward_kernel(const HeadNormBackward norm, float* partial) {
  using Packs = RowPacks<kPack<T>, kAligned>;
  SHARED(float, shared, kRowSumElements);
  unsigned turn = 0;
  const NormedHeads& of = norm.heads;
  const int dim = static_cast<int>(of.dim), stride = static_cast<int>(blockDim.x);
  float* const dw = dynamic_shared<float>();
  float* const own = dw + threadIdx.y * of.dim;
  for (int pack = static_cast<int>(threadIdx.x); pack < Packs::count(dim); pack += stride)
    Packs::store(Pack<kPack<T>>{}, own, pack, dim);
  for_each_row<kAligned, T>(of, [&](std::int64_t row, int packs) {
    const std::int64_t begin = begin_of(of, row);
    const T* const x = static_cast<const T*>(of.x) + begin;
    const T* const dy = static_cast<const T*>(norm.dy) + begin;
    float sums[2] = {};
    if (of.squares) {
      if (packs > 0) sums[0] = of.squares[row], sums[1] = norm.dots[row];
    } else {
      add_row<kAligned>(of, dy, x, packs, sums);
      row_sums(sums, shared, turn);
    }
    const float rstd = rstd_of(of, sums[0]);
    const float mean = sums[1] * rstd / static_cast<float>(of.width);
    for (int pack = static_cast<int>(threadIdx.x); pack < packs; pack += stride) {
      const auto gradient = Packs::load(dy, pack, dim), values = Packs::load(x, pack, dim);
      const auto w = load_weights<false, kAligned, kPack<T>>(of.w, of.plus, pack, dim);
      auto sum = Packs::load(own, pack, dim);
      Pack<kPack<T>> dx;
#pragma unroll
      for (int i = 0; i < kPack<T>; ++i) {
        const float normed = values[i] * rstd;
        dx[i] = (gradient[i] * w[i] - normed * mean) * rstd;
        sum[i] += gradient[i] * normed;
      }
      Packs::store(dx, static_cast<T*>(norm.dx) + begin, pack, dim);
      Packs::store(sum, own, pack, dim);
    }
  });
  __syncthreads();
  const int first = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  for (int c = first; c < dim; c += static_cast<int>(blockDim.x * blockDim.y)) {
    float sum = dw[c];
    for (int y = 1; y < static_cast<int>(blockDim.y); ++y) sum += dw[y * dim + c];
    partial[std::int64_t{blockIdx.x} * dim + c] = sum;
  }
}

template <typename T, bool kAligned>
__global__ void __launch_bounds__(RowShape::kMostThreads)
    head_sums_kernel(const NormedHeads of, const T* dy, float* out) {
  SHARED(float, shared, kRowSumElements);
  unsigned turn = 0;
  for_each_row<kAligned, T>(of, [&](std::int64_t row, int packs) {
    const std::int64_t begin = begin_of(of, row);
    const T* const x = static_cast<const T*>(of.x) + begin;
    float sums[2] = {};
    if (dy) {
      add_row<kAligned>(of, dy + begin, x, packs, sums);
    } else {
      float squares[1] = {};
      add_row<kAligned>(of, x, x, packs, squares);
      sums[0] = squares[0];
    }
    row_sums(sums, shared, turn);
    if (packs > 0 && threadIdx.x == 0) out[row] = dy ? sums[1] : sums[0];
  });
}

/// How the rows are divided.
struct Way {
  Way(const NormedHeads& x, std::initializer_list<const void*> others, std::int64_t most_blocks) {
    const int n = x.dtype == DType::bf16 ? kPack<__nv_bfloat16> : kPack<float>;
    aligned = x.first % n == 0 && x.stride % n == 0 && are_aligned(others) &&
              rows_are_aligned(x.dim, n, {x.x, x.w});
    const std::int64_t packs = aligned ? x.dim / n : divide_up<std::int64_t>(x.dim, 32 * n) * 32;
    const RowShape shape(rows_of(x), packs);
    threads = shape.threads;
    blocks = grid_blocks(shape.row_groups, most_blocks);
  }

  bool aligned;
  dim3 threads;
  unsigned blocks;
};

Way way_of(const HeadNormBackward& norm) {
  return {norm.heads, {norm.dy, norm.dx}, kBackwardBlocks};
}

/// Calls body(Type<T>(), whether packs are aligned, a constant) for the elements' type.
template <typename Body>
void with_packs(const NormedHeads& x, const Way& way, const Body& body) {
  with_act_type(x.dtype, [&](auto type) {
    with_constant(way.aligned, [&](auto aligned) { body(type, aligned); });
  });
}

}  // namespace

void launch_head_norm(const NormedHeads& heads, void* y, cudaStream_t stream) {
  const Way way(heads, {y}, kForwardBlocks);
  with_packs(heads, way, [&](auto type, auto aligned) {
    launch(head_norm_kernel<typename decltype(type)::type, aligned()>, dim3(way.blocks),
           way.threads, 0, stream, heads, y);
  });
}

std::size_t head_norm_backward_scratch(const HeadNormBackward& norm) {
  return way_of(norm).blocks * static_cast<std::size_t>(norm.heads.dim) * sizeof(float);
}

void launch_head_norm_backward(const HeadNormBackward& norm, void* scratch, cudaStream_t stream) {
  const Way way = way_of(norm);
  auto* const partial = static_cast<float*>(scratch);
  with_packs(norm.heads, way, [&](auto type, auto aligned) {
    launch(head_norm_backward_kernel<typename decltype(type)::type, aligned()>, dim3(way.blocks),
           way.threads, way.threads.y * static_cast<std::size_t>(norm.heads.dim) * sizeof(float),
           stream, norm, partial);
  });
  launch_add_partials(partial, way.blocks, norm.heads.dim, {.first = norm.dw}, stream);
}

void launch_head_sums(const NormedHeads& heads, const void* dy, float* sums, cudaStream_t stream) {
  const Way way(heads, {dy}, kForwardBlocks);
  with_packs(heads, way, [&](auto type, auto aligned) {
    launch(head_sums_kernel<typename decltype(type)::type, aligned()>, dim3(way.blocks),
           way.threads, 0, stream, heads, dy, sums);
  });
}

}  // namespace troupe::tensor::cuda
