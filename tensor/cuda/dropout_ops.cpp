#include <type_traits>

#include "tensor/cuda/cuda_ops.h"
#include "tensor/cuda/kernels/dropout_kernels.h"
#include "tensor/cuda/op_arguments.h"

namespace troupe::tensor::cuda {

void CudaOps::dropout(Stream& stream, const Dropout& dropout, const MatrixSlice& slice,
                      const Tensor& x, const Tensor& y, const Tensor& residual) {
  TROUPE_ASSERT(dropout.p >= 0 && dropout.p < 1);
  TROUPE_ASSERT(x.shape.rank() == 2 && slice.first_column + x.shape[1] <= slice.columns);
  TROUPE_ASSERT(y.num_elements() == x.num_elements() && y.dtype == x.dtype);
  TROUPE_ASSERT(!residual || residual.num_elements() == x.num_elements());
  TROUPE_ASSERT(!residual || residual.dtype == x.dtype);
  if (x.num_elements() == 0) return;
  with_act(x.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    launch_dropout<T>(dropout, slice, x.as<T>(), residual.as<T>(), y.as<T>(), x.shape[0],
                      x.shape[1], handle_of(stream));
  });
}

}  // namespace troupe::tensor::cuda
