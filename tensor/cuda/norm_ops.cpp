#include "tensor/cuda/cuda_ops.h"
#include "tensor/cuda/kernels/norm_kernels.h"
#include "tensor/cuda/op_arguments.h"

namespace troupe::tensor::cuda {
namespace {

void check_norm(const Tensor& x, const Tensor& y, const Tensor& w, const Tensor& rstd) {
  TROUPE_ASSERT(is_act(x.dtype) && y.dtype == x.dtype && w.dtype == DType::f32);
  TROUPE_ASSERT(x.num_elements() == rstd.num_elements() * w.num_elements());
  TROUPE_ASSERT(y.num_elements() == x.num_elements() && rstd.dtype == DType::f32);
}

void check_gradients(const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& rstd,
                     const Tensor& residual, const Tensor& dx, const Tensor& dw) {
  check_norm(x, dx, w, rstd);
  TROUPE_ASSERT(dy.dtype == x.dtype && dy.num_elements() == x.num_elements());
  TROUPE_ASSERT(!residual || residual.dtype == x.dtype);
  TROUPE_ASSERT(!residual || residual.num_elements() == x.num_elements());
  TROUPE_ASSERT(dw.dtype == DType::f32 && dw.num_elements() == w.num_elements());
}

void queue_backward(Stream& stream, const NormBackward& norm) {
  void* const scratch = kernel_stream(stream).scratch(norm_backward_scratch(norm));
  launch_norm_backward(norm, scratch, handle_of(stream));
}

}  // namespace

void CudaOps::rms_norm(Stream& stream, const Tensor& x, const Tensor& w, float eps, const Tensor& y,
                       const Tensor& rstd) {
  check_norm(x, y, w, rstd);
  launch_norm({.dtype = x.dtype,
               .rows = rstd.num_elements(),
               .columns = w.num_elements(),
               .x = x.data,
               .w = w.as<float>(),
               .eps = eps,
               .y = y.data,
               .rstd = rstd.as<float>()},
              handle_of(stream));
}

void CudaOps::rms_norm_backward(Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& w,
                                const Tensor& rstd, const Tensor& residual, const Tensor& dx,
                                const Tensor& dw) {
  check_gradients(dy, x, w, rstd, residual, dx, dw);
  queue_backward(stream, {.dtype = x.dtype,
                          .rows = rstd.num_elements(),
                          .columns = w.num_elements(),
                          .dy = dy.data,
                          .x = x.data,
                          .w = w.as<float>(),
                          .rstd = rstd.as<float>(),
                          .residual = residual.data,
                          .dx = dx.data,
                          .dw = dw.as<float>()});
}

void CudaOps::layer_norm(Stream& stream, const Tensor& x, const Tensor& w, const Tensor& b,
                         float eps, const Tensor& y, const Tensor& mean, const Tensor& rstd) {
  check_norm(x, y, w, rstd);
  TROUPE_ASSERT(b.dtype == DType::f32 && b.num_elements() == w.num_elements());
  TROUPE_ASSERT(mean.dtype == DType::f32 && mean.num_elements() == rstd.num_elements());
  launch_norm({.dtype = x.dtype,
               .rows = rstd.num_elements(),
               .columns = w.num_elements(),
               .x = x.data,
               .w = w.as<float>(),
               .b = b.as<float>(),
               .eps = eps,
               .y = y.data,
               .mean = mean.as<float>(),
               .rstd = rstd.as<float>()},
              handle_of(stream));
}

void CudaOps::layer_norm_backward(Stream& stream, const Tensor& dy, const Tensor& x,
                                  const Tensor& w, const Tensor& mean, const Tensor& rstd,
                                  const Tensor& residual, const Tensor& dx, const Tensor& dw,
                                  const Tensor& db) {
  check_gradients(dy, x, w, rstd, residual, dx, dw);
  TROUPE_ASSERT(db.dtype == DType::f32 && db.num_elements() == w.num_elements());
  TROUPE_ASSERT(mean.dtype == DType::f32 && mean.num_elements() == rstd.num_elements());
  queue_backward(stream, {.dtype = x.dtype,
                          .rows = rstd.num_elements(),
                          .columns = w.num_elements(),
                          .dy = dy.data,
                          .x = x.data,
                          .w = w.as<float>(),
                          .mean = mean.as<float>(),
                          .rstd = rstd.as<float>(),
                          .residual = residual.data,
                          .dx = dx.data,
                          .dw = dw.as<float>(),
                          .db = db.as<float>()});
}

}  // namespace troupe::tensor::cuda
