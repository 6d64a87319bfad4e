#include "tensor/cuda/cuda_ops.h"
#include "tensor/cuda/kernels/adamw_kernels.h"
#include "tensor/cuda/op_arguments.h"

namespace troupe::tensor::cuda {

void CudaOps::adamw(Stream& stream, const AdamWStep& step, const Tensor& gradient, const Tensor& w,
                    const Tensor& m, const Tensor& v, const Tensor& w_out, const Tensor& m_out,
                    const Tensor& v_out, const Tensor& copy) {
  for (const Tensor* x : {&gradient, &w, &m, &v, &w_out, &m_out, &v_out}) {
    TROUPE_ASSERT(x->dtype == DType::f32 && x->num_elements() == gradient.num_elements());
  }
  TROUPE_ASSERT(!copy || copy.num_elements() == gradient.num_elements());
  launch_adamw({.factors = AdamWFactors(step),
                .count = gradient.num_elements(),
                .gradient = gradient.as<float>(),
                .w = w.as<float>(),
                .m = m.as<float>(),
                .v = v.as<float>(),
                .w_out = w_out.as<float>(),
                .m_out = m_out.as<float>(),
                .v_out = v_out.as<float>(),
                .copy = copy.data,
                .copy_dtype = copy.dtype},
               handle_of(stream));
}

}  // namespace troupe::tensor::cuda
