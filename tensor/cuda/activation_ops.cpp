#include <type_traits>

#include "tensor/cuda/cuda_ops.h"
#include "tensor/cuda/kernels/activation_kernels.h"
#include "tensor/cuda/op_arguments.h"

namespace troupe::tensor::cuda {

void CudaOps::swiglu(Stream& stream, const Tensor& gate_up, const Tensor& y) {
  TROUPE_ASSERT(y.shape.rank() == 2 && gate_up.num_elements() == 2 * y.num_elements());
  TROUPE_ASSERT(gate_up.dtype == y.dtype);
  if (y.num_elements() == 0) return;
  with_act(y.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    launch_swiglu<T>(gate_up.as<T>(), y.as<T>(), y.shape[0], y.shape[1], handle_of(stream));
  });
}

void CudaOps::swiglu_backward(Stream& stream, const Tensor& gate_up, const Tensor& dy,
                              const Tensor& dgate_up) {
  TROUPE_ASSERT(dy.shape.rank() == 2 && gate_up.num_elements() == 2 * dy.num_elements());
  TROUPE_ASSERT(dgate_up.num_elements() == gate_up.num_elements());
  TROUPE_ASSERT(gate_up.dtype == dy.dtype && dgate_up.dtype == dy.dtype);
  if (dy.num_elements() == 0) return;
  with_act(dy.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    launch_swiglu_backward<T>(gate_up.as<T>(), dy.as<T>(), dgate_up.as<T>(), dy.shape[0],
                              dy.shape[1], handle_of(stream));
  });
}

void CudaOps::gelu(Stream& stream, const Tensor& x, const Tensor& y) {
  TROUPE_ASSERT(x.num_elements() == y.num_elements() && x.dtype == y.dtype);
  if (x.num_elements() == 0) return;
  with_act(x.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    launch_gelu<T>(x.as<T>(), y.as<T>(), x.num_elements(), handle_of(stream));
  });
}

void CudaOps::gelu_backward(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  TROUPE_ASSERT(dy.num_elements() == x.num_elements() && dx.num_elements() == x.num_elements());
  TROUPE_ASSERT(dy.dtype == x.dtype && dx.dtype == x.dtype);
  if (x.num_elements() == 0) return;
  with_act(x.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    launch_gelu_backward<T>(x.as<T>(), dy.as<T>(), dx.as<T>(), x.num_elements(), handle_of(stream));
  });
}

}  // namespace troupe::tensor::cuda
