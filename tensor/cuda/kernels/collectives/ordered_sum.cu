#include <type_traits>

#include "tensor/cuda/kernels/collectives/ordered_sum_kernels.h"
#include "tensor/cuda/kernels/grid/elementwise.h"

namespace troupe::tensor::cuda {
namespace {

/// What elements of T are computed with. Integers wrap around, which signed ones must not in C++.
template <typename T>
struct Wide {
  using type = T;
};
template <>
struct Wide<__nv_bfloat16> {
  using type = float;
};
template <>
struct Wide<std::int32_t> {
  using type = std::uint32_t;
};
template <>
struct Wide<std::int64_t> {
  using type = std::uint64_t;
};

template <typename T>
__device__ __forceinline__ typename Wide<T>::type widened(T x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return to_float32(x);
  else
    return static_cast<typename Wide<T>::type>(x);
}

/// `x` as it is kept in memory.
template <typename Out, typename W>
__device__ __forceinline__ Out narrowed(W x) {
  if constexpr (std::is_same_v<Out, __nv_bfloat16>)
    return from_float32<__nv_bfloat16>(x);
  else
    return static_cast<Out>(x);
}

/// A NaN in `a` stays, because no comparison with it is true.
template <typename T, typename W>
__device__ __forceinline__ W larger(W a, W b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(b) > static_cast<T>(a) ? b : a;
  } else {
    return b > a || b != b ? b : a;
  }
}

template <typename T, typename W>
__device__ __forceinline__ W divided(W sum, int members) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<W>(static_cast<T>(sum) / static_cast<T>(members));
  else
    return sum / static_cast<W>(members);
}

template <typename T>
struct SumOf {
  const T* own_values;
  const std::byte* received;
  std::int64_t stride, count;
  int members, own;
  Reduction reduction;

  __device__ __forceinline__ const T* values(int member) const {
    if (member == own) return own_values;
    return reinterpret_cast<const T*>(received + member * stride);
  }
};

template <typename T, typename Out>
__global__ void __launch_bounds__(kElementThreads) ordered_sum_kernel(SumOf<T> of, Out* out) {
  for_each_item(of.count, [&](std::int64_t i) {
    auto x = widened(of.values(0)[i]);
    for (int member = 1; member < of.members; ++member) {
      const auto y = widened(of.values(member)[i]);
      x = of.reduction == Reduction::max ? larger<T>(x, y) : x + y;
    }
    out[i] = narrowed<Out>(of.reduction == Reduction::average ? divided<T>(x, of.members) : x);
  });
}

template <typename T, typename Out = T>
void launch_sum_of(const OrderedSum& sum, cudaStream_t stream) {
  const SumOf<T> of{.own_values = static_cast<const T*>(sum.own_values),
                    .received = static_cast<const std::byte*>(sum.received),
                    .stride = sum.stride,
                    .count = sum.count,
                    .members = sum.members,
                    .own = sum.own,
                    .reduction = sum.reduction};
  launch(ordered_sum_kernel<T, Out>, dim3(blocks_for(sum.count)), dim3(kElementThreads), 0, stream,
         of, static_cast<Out*>(sum.out));
}

}  // namespace

void launch_ordered_sum(const OrderedSum& sum, cudaStream_t stream) {
  switch (sum.dtype) {
    case DType::f32:
      return launch_sum_of<float>(sum, stream);
    case DType::bf16:
      return sum.out_dtype == DType::f32 ? launch_sum_of<__nv_bfloat16, float>(sum, stream)
                                         : launch_sum_of<__nv_bfloat16>(sum, stream);
    case DType::f64:
      return launch_sum_of<double>(sum, stream);
    case DType::i32:
      return launch_sum_of<std::int32_t>(sum, stream);
    case DType::i64:
      return launch_sum_of<std::int64_t>(sum, stream);
  }
}

}  // namespace troupe::tensor::cuda
