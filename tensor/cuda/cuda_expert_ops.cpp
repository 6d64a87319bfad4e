#include "tensor/cuda/cuda_ops.h"
#include "tensor/cuda/kernels/elements/elementwise_kernels.h"
#include "tensor/cuda/kernels/experts/expert_kernels.h"
#include "tensor/cuda/runtime/kernel_stream.h"
#include "tensor/cuda/runtime/stream_memory.h"

namespace troupe::tensor::cuda {
namespace {

RoutedTokens routed_of(const Tensor& probs, const RouterShape& router, const Tensor& chosen,
                       const Tensor& weights, const Tensor& lse, const Tensor& counted) {
  return {.tokens = probs.shape[0],
          .router = router,
          .probs = probs.as<float>(),
          .chosen = chosen.as<std::int32_t>(),
          .weights = weights.as<float>(),
          .lse = lse.as<float>(),
          .counted = counted.as<std::int32_t>()};
}

}  // namespace

void CudaOps::run_route(Stream& stream, const Tensor& logits, const RouterShape& router,
                        const Tensor& probs, const Tensor& chosen, const Tensor& weights,
                        const Tensor& lse) {
  if (probs.num_elements() == 0) return;
  launch_route(routed_of(probs, router, chosen, weights, lse, {}), logits.as<float>(),
               handle_of(stream));
}

void CudaOps::run_route_backward(Stream& stream, const Tensor& probs, const Tensor& chosen,
                                 const Tensor& weights, const Tensor& dweights,
                                 const RouterShape& router, const RouterLosses& losses,
                                 const Tensor& dlogits) {
  if (probs.num_elements() == 0) return;
  launch_route_backward(routed_of(probs, router, chosen, weights, losses.lse, losses.counted),
                        dweights.as<float>(), losses.balance.as<float>(), losses.z,
                        dlogits.as<float>(), handle_of(stream));
}

void CudaOps::run_router_load(Stream& stream, const Tensor& probs, const Tensor& chosen,
                              const Tensor& lse, const Tensor& counted, const Tensor& load) {
  const RouterShape router{.experts = probs.shape[1], .chosen = chosen.shape[1]};
  launch_router_load(routed_of(probs, router, chosen, {}, lse, counted), load.as<float>(),
                     handle_of(stream));
}

void CudaOps::run_sort_rows(Stream& stream, const Tensor& chosen, const Tensor& weights,
                            const Tensor& offsets, const Tensor& row_of, const Tensor& token_of,
                            const Tensor& row_weights) {
  if (chosen.num_elements() == 0)
    return queue_zeros(offsets.data, offsets.num_bytes(), handle_of(stream));
  const SortedRows rows{.chosen = chosen.as<std::int32_t>(),
                        .weights = weights.as<float>(),
                        .choices = chosen.num_elements(),
                        .each = chosen.shape[1],
                        .experts = offsets.num_elements() - 1,
                        .offsets = offsets.as<std::int32_t>(),
                        .row_of = row_of.as<std::int32_t>(),
                        .token_of = token_of.as<std::int32_t>(),
                        .row_weights = row_weights.as<float>()};
  launch_sort_rows(rows, kernel_stream(stream).scratch(sort_rows_scratch(rows)), handle_of(stream));
}

void CudaOps::run_gather_rows(Stream& stream, const Tensor& x, const Tensor& rows,
                              const Tensor& y) {
  if (y.num_elements() == 0) return;
  launch_gather_rows(x.data, rows.as<std::int32_t>(), y.data, y.shape[0],
                     static_cast<std::size_t>(y.shape[1]) * size_of(y.dtype), handle_of(stream));
}

void CudaOps::run_sum_rows(Stream& stream, const Tensor& x, const Tensor& row_of, const Tensor& y,
                           const Tensor& residual) {
  if (y.num_elements() == 0) return;
  launch_sum_rows(y.dtype, x.data, row_of.as<std::int32_t>(), row_of.shape[1], residual.data,
                  y.data, y.shape[0], y.shape[1], handle_of(stream));
}

void CudaOps::run_weighted_swiglu(Stream& stream, const Tensor& gate_up, const Tensor& weights,
                                  const Tensor& y) {
  if (y.num_elements() == 0) return;
  launch_weighted_swiglu(y.dtype, gate_up.data, weights.as<float>(), y.data, y.shape[0], y.shape[1],
                         handle_of(stream));
}

void CudaOps::run_weighted_swiglu_backward(Stream& stream, const Tensor& gate_up,
                                           const Tensor& weights, const Tensor& dy,
                                           const Tensor& dgate_up, const Tensor& dweights) {
  if (dy.num_elements() == 0) return;
  launch_weighted_swiglu_backward(dy.dtype, gate_up.data, weights.as<float>(), dy.data,
                                  dgate_up.data, dweights.as<float>(), dy.shape[0], dy.shape[1],
                                  handle_of(stream));
}

}  // namespace troupe::tensor::cuda
