#include "tensor/cuda/cuda_ops.h"
#include "tensor/cuda/kernels/column_kernels.h"
#include "tensor/cuda/kernels/reduction_kernels.h"
#include "tensor/cuda/op_arguments.h"

namespace troupe::tensor::cuda {

void CudaOps::bias_gradient(Stream& stream, const Tensor& dy, const Tensor& db, Gradient gradient) {
  const std::int64_t columns = db.num_elements();
  TROUPE_ASSERT(is_act(dy.dtype) && db.dtype == DType::f32 && dy.num_elements() % columns == 0);
  const ColumnTerms terms{
      .dtype = dy.dtype, .rows = dy.num_elements() / columns, .columns = columns, .dy = dy.data};
  launch_column_sums(terms, {.first = db.as<float>(), .add = gradient == Gradient::added},
                     kernel_stream(stream).scratch(column_sums_scratch(terms)), handle_of(stream));
}

void CudaOps::sum_of_squares(Stream& stream, const Tensor& x, const Tensor& sum) {
  TROUPE_ASSERT(x.dtype == DType::f32 && sum.dtype == DType::f64 && sum.num_elements() == 1);
  const std::int64_t count = x.num_elements();
  launch_sum_of_squares(x.as<float>(), count, sum.as<double>(),
                        kernel_stream(stream).scratch(sum_of_squares_scratch(count)),
                        handle_of(stream));
}

}  // namespace troupe::tensor::cuda
