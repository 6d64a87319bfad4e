#include "tensor/cuda/kernels/collectives/member_flags.h"
#include "tensor/cuda/kernels/collectives/one_shot_kernels.h"
#include "tensor/cuda/kernels/grid/dispatch.h"
#include "tensor/cuda/kernels/grid/launch_shape.h"
#include "tensor/cuda/kernels/grid/waiting_launch.h"
#include "tensor/cuda/kernels/rows/norm_row.h"

namespace troupe::tensor::cuda {
namespace {

/// Tells all members that this one has come to the call, and waits until all have. Every block does
/// both, so that none waits for another block of its own grid, and all lanes of a warp tell before
/// one waits. False if the members are not to wait any more. Called by all threads of a block.
__device__ __forceinline__ bool meet(const OneShotSum& of) {
  SHARED(int, ended, 1);
  if (threadIdx.x < 32 && threadIdx.y == 0) {
    const int member = static_cast<int>(threadIdx.x);
    const bool is_member = member < of.members;
    if (is_member) raise_flag(of.flags[member] + of.own * kFlagStride, of.call);
    __syncwarp();
    const bool is_here =
        !is_member || wait_for(of.flags[of.own] + member * kFlagStride, of.call, of.abort);
    const int lacks = __any_sync(0xffffffffu, !is_here);
    if (member == 0) ended[0] = lacks;
  }
  __syncthreads();
  return ended[0] == 0;
}

/// The members' values of a pack, added in ascending order. All loads are under way at once: most
/// go to other GPUs.
template <typename T>
__device__ __forceinline__ Pack<kPack<T>> sum_of_parts(const OneShotSum& of, std::int64_t element) {
  RawPack<T, kPack<T>> raw[kMostOneShotMembers];
#pragma unroll
  for (int member = 0; member < kMostOneShotMembers; ++member) {
    if (member < of.members)
      raw[member] = load_raw<kPack<T>>(static_cast<const T*>(of.parts[member]) + element);
  }
  auto sum = widen(raw[0]);
#pragma unroll
  for (int member = 1; member < kMostOneShotMembers; ++member) {
    if (member >= of.members) continue;
    const auto part = widen(raw[member]);
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) sum[i] += part[i];
  }
  return sum;
}

/// Row of of.sum = parts + bias + residual. Rounded where the ops that this stands for round: after
/// the parts, as a collective writes them to memory, and at the end. A thread writes the packs that
/// it reads in norm_row().
template <typename T>
__device__ __forceinline__ void add_row(const OneShotSum& of, std::int64_t row) {
  constexpr int N = kPack<T>;
  const int columns = static_cast<int>(of.norm.columns);
  for (int pack = static_cast<int>(threadIdx.x); pack < columns / N;
       pack += static_cast<int>(blockDim.x)) {
    const std::int64_t column = std::int64_t{pack} * N, element = row * columns + column;
    Pack<N> x = widen(narrow<T>(sum_of_parts<T>(of, element)));
    if (of.bias) {
      const Pack<N> bias = load<N>(of.bias + column);
#pragma unroll
      for (int i = 0; i < N; ++i) x[i] += bias[i];
    }
    const Pack<N> residual = load<N>(static_cast<const T*>(of.residual) + element);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] += residual[i];
    store(x, static_cast<T*>(of.sum) + element);
  }
}

template <typename T, bool kCentered>
__global__ void __launch_bounds__(RowShape::kMostThreads) one_shot_kernel(OneShotSum of) {
  SHARED(float, shared, kRowSumElements);
  unsigned turn = 0;
  if (!meet(of)) return;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.y;
  std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  for (; row - threadIdx.y < of.norm.rows; row += step) {
    if (row < of.norm.rows) add_row<T>(of, row);
    if (of.norm.w) norm_row<T, kCentered, true>(of.norm, row, shared, turn);
  }
}

template <typename T, bool kCentered>
void launch_rows(const OneShotSum& sum, cudaStream_t stream) {
  constexpr std::int64_t kBlocks = 4;  // for each multiprocessor
  const NormForward& norm = sum.norm;
  const RowShape shape(norm.rows, RowPacks<kPack<T>, true>::count(norm.columns));
  launch_waiting(one_shot_kernel<T, kCentered>, dim3(grid_blocks(shape.row_groups, kBlocks)),
                 shape.threads, stream, sum);
}

}  // namespace

void launch_one_shot(const OneShotSum& sum, cudaStream_t stream) {
  with_act_type(sum.norm.dtype, [&](auto type) {
    with_constant(sum.norm.b != nullptr, [&](auto centered) {
      launch_rows<typename decltype(type)::type, centered()>(sum, stream);
    });
  });
}

}  // namespace troupe::tensor::cuda
