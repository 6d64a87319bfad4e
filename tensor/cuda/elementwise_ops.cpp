#include <type_traits>

#include "tensor/cuda/cuda_ops.h"
#include "tensor/cuda/kernels/elementwise_kernels.h"
#include "tensor/cuda/op_arguments.h"
#include "tensor/cuda/stream_memory.h"

namespace troupe::tensor::cuda {

void CudaOps::fill_zero(Stream& stream, const Tensor& x) {
  if (x.num_elements() == 0) return;
  queue_zeros(x.data, x.num_bytes(), handle_of(stream));
}

void CudaOps::copy(Stream& stream, const Tensor& src, const Tensor& dst) {
  TROUPE_ASSERT(src.num_elements() == dst.num_elements());
  TROUPE_ASSERT(src.dtype == dst.dtype || (is_act(src.dtype) && is_act(dst.dtype)));
  const std::int64_t n = src.num_elements();
  const cudaStream_t handle = handle_of(stream);
  if (n == 0) return;
  if (src.dtype == dst.dtype) return queue_copy(dst.data, src.data, src.num_bytes(), handle);
  if (src.dtype == DType::f32) {
    return launch_convert(src.as<float>(), dst.as<BFloat16>(), n, handle);
  }
  launch_convert(src.as<BFloat16>(), dst.as<float>(), n, handle);
}

void CudaOps::accumulate(Stream& stream, const Tensor& x, const Tensor& y) {
  TROUPE_ASSERT(x.dtype == y.dtype && x.num_elements() == y.num_elements());
  if (y.num_elements() == 0) return;
  with_act(y.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    launch_accumulate<T>(x.as<T>(), y.as<T>(), y.num_elements(), handle_of(stream));
  });
}

void CudaOps::copy_columns(Stream& stream, const Tensor& src, std::int64_t from, const Tensor& dst,
                           std::int64_t to, std::int64_t count) {
  TROUPE_ASSERT(src.dtype == dst.dtype && src.shape.rank() == 2 && dst.shape.rank() == 2);
  TROUPE_ASSERT(src.shape[0] == dst.shape[0] && count >= 0);
  TROUPE_ASSERT(from >= 0 && from + count <= src.shape[1]);
  TROUPE_ASSERT(to >= 0 && to + count <= dst.shape[1]);
  if (count == 0 || src.shape[0] == 0) return;
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * size_of(src.dtype);
  };
  queue_copy_rows(dst.as<std::byte>() + bytes(to), bytes(dst.shape[1]),
                  src.as<std::byte>() + bytes(from), bytes(src.shape[1]), bytes(count),
                  static_cast<std::size_t>(src.shape[0]), handle_of(stream));
}

void CudaOps::add_bias(Stream& stream, const Tensor& b, const Tensor& y, const Tensor& residual) {
  TROUPE_ASSERT(y.shape.rank() == 2 && b.num_elements() == y.shape[1] && b.dtype == DType::f32);
  TROUPE_ASSERT(!residual || residual.num_elements() == y.num_elements());
  TROUPE_ASSERT(!residual || residual.dtype == y.dtype);
  if (y.num_elements() == 0) return;
  with_act(y.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    launch_add_bias<T>(b.as<float>(), residual.as<T>(), y.as<T>(), y.shape[0], y.shape[1],
                       handle_of(stream));
  });
}

}  // namespace troupe::tensor::cuda
