#include "tensor/cuda/cuda_ops.h"
#include "tensor/cuda/kernels/embedding_kernels.h"
#include "tensor/cuda/op_arguments.h"

namespace troupe::tensor::cuda {
namespace {

Lookup lookup_of(const Tensor& ids, std::int64_t first, const Tensor& table, const Tensor& x) {
  TROUPE_ASSERT(ids.dtype == DType::i32 && table.dtype == DType::f32 && table.shape.rank() == 2);
  TROUPE_ASSERT(is_act(x.dtype) && x.num_elements() == ids.num_elements() * table.shape[1]);
  return {.dtype = x.dtype,
          .ids = ids.as<std::int32_t>(),
          .tokens = ids.num_elements(),
          .first = first,
          .rows = table.shape[0],
          .columns = table.shape[1]};
}

Positions positions_of(const Tensor& positions, std::int64_t first, const Tensor& x) {
  TROUPE_ASSERT(positions.dtype == DType::f32 && positions.shape.rank() == 2 && first >= 0);
  TROUPE_ASSERT(is_act(x.dtype) && x.num_elements() % positions.shape[1] == 0);
  return {.dtype = x.dtype,
          .tokens = x.num_elements() / positions.shape[1],
          .first = first,
          .positions = positions.shape[0],
          .columns = positions.shape[1]};
}

}  // namespace

// The host does not see the ids: a token that names no row gets zeros here, too.
void CudaOps::embedding(Stream& stream, const Tensor& ids, const Tensor& table, const Tensor& x) {
  embedding_range(stream, ids, 0, table, x);
}

void CudaOps::embedding_backward(Stream& stream, const Tensor& ids, const Tensor& dx,
                                 const Tensor& dtable) {
  embedding_range_backward(stream, ids, 0, dx, dtable);
}

void CudaOps::embedding_range(Stream& stream, const Tensor& ids, std::int64_t first,
                              const Tensor& table, const Tensor& x) {
  launch_embedding(lookup_of(ids, first, table, x), table.as<float>(), x.data, handle_of(stream));
}

void CudaOps::embedding_range_backward(Stream& stream, const Tensor& ids, std::int64_t first,
                                       const Tensor& dx, const Tensor& dtable) {
  const Lookup lookup = lookup_of(ids, first, dtable, dx);
  launch_embedding_backward(lookup, dx.data, dtable.as<float>(),
                            kernel_stream(stream).scratch(embedding_backward_scratch(lookup)),
                            handle_of(stream));
}

void CudaOps::add_positions(Stream& stream, const Tensor& positions, std::int64_t first,
                            const Tensor& x) {
  launch_add_positions(positions_of(positions, first, x), positions.as<float>(), x.data,
                       handle_of(stream));
}

void CudaOps::add_rows(Stream& stream, const Tensor& table, const Tensor& rows, const Tensor& x) {
  launch_add_rows(lookup_of(rows, 0, table, x), table.as<float>(), x.data, handle_of(stream));
}

void CudaOps::positions_backward(Stream& stream, const Tensor& dx, std::int64_t first,
                                 const Tensor& dpositions) {
  launch_positions_backward(positions_of(dpositions, first, dx), dx.data, dpositions.as<float>(),
                            handle_of(stream));
}

}  // namespace troupe::tensor::cuda
