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

void CudaOps::sums_of_squares(Stream& stream, const Tensor& x, std::int64_t piece,
                              const Tensor& sums) {
  const std::int64_t count = x.num_elements();
  TROUPE_ASSERT(x.dtype == DType::f32 && sums.dtype == DType::f64 && piece > 0);
  TROUPE_ASSERT(sums.num_elements() == (count + piece - 1) / piece);
  launch_sums_of_squares(x.as<float>(), count, piece, sums.as<double>(), handle_of(stream));
}

}  // namespace troupe::tensor::cuda
