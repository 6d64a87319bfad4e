#include "tensor/device/ops.h"
#include "tensor/errors/error.h"

// What the arguments of the ops of experts must be, on every back end (see ops.cpp).

namespace troupe::tensor {
namespace {

bool is_act(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16;
}

bool is_of(const Tensor& x, DType dtype, std::int64_t elements) {
  return x.dtype == dtype && x.num_elements() == elements;
}

bool is_matrix(const Tensor& x) {
  return x.shape.rank() == 2;
}

/// Asserts that probs[T,E], chosen[T,K] and weights[T,K] are a router's.
void check_router(const Tensor& probs, const Tensor& chosen, const Tensor& weights,
                  const RouterShape& router) {
  TROUPE_ASSERT(router.chosen >= 1 && router.chosen <= router.experts);
  TROUPE_ASSERT(probs.dtype == DType::f32 && is_matrix(probs) && probs.shape[1] == router.experts);
  const std::int64_t choices = probs.shape[0] * router.chosen;
  TROUPE_ASSERT(is_of(chosen, DType::i32, choices) && is_of(weights, DType::f32, choices));
}

void check_tokens(const Tensor& of_tokens, DType dtype, const Tensor& probs) {
  TROUPE_ASSERT(!of_tokens || is_of(of_tokens, dtype, probs.shape[0]));
}

/// Asserts that each index is below `count`, if the host sees them.
void check_indices(Stream& stream, const Tensor& indices, std::int64_t count) {
  TROUPE_ASSERT(indices.dtype == DType::i32);
  if (!stream.device().host_reads_memory()) return;
  for (std::int64_t i = 0; i < indices.num_elements(); ++i) {
    const std::int32_t index = indices.as<std::int32_t>()[i];
    TROUPE_ASSERT(index >= 0 && index < count);
  }
}

void check_weighted(const Tensor& gate_up, const Tensor& weights, const Tensor& y) {
  TROUPE_ASSERT(is_act(y.dtype) && is_matrix(y));
  TROUPE_ASSERT(is_of(gate_up, y.dtype, 2 * y.num_elements()));
  TROUPE_ASSERT(is_of(weights, DType::f32, y.shape[0]));
}

}  // namespace

void Ops::route(Stream& stream, const Tensor& logits, const RouterShape& router,
                const Tensor& probs, const Tensor& chosen, const Tensor& weights,
                const Tensor& lse) {
  check_router(probs, chosen, weights, router);
  TROUPE_ASSERT(is_of(logits, DType::f32, probs.num_elements()));
  check_tokens(lse, DType::f32, probs);
  run_route(stream, logits, router, probs, chosen, weights, lse);
}

void Ops::route_backward(Stream& stream, const Tensor& probs, const Tensor& chosen,
                         const Tensor& weights, const Tensor& dweights, const RouterShape& router,
                         const RouterLosses& losses, const Tensor& dlogits) {
  check_router(probs, chosen, weights, router);
  TROUPE_ASSERT(is_of(dweights, DType::f32, weights.num_elements()));
  TROUPE_ASSERT(is_of(dlogits, DType::f32, probs.num_elements()));
  TROUPE_ASSERT(!losses.balance || is_of(losses.balance, DType::f32, router.experts));
  TROUPE_ASSERT(losses.z == 0 || losses.lse);
  check_tokens(losses.lse, DType::f32, probs);
  check_tokens(losses.counted, DType::i32, probs);
  run_route_backward(stream, probs, chosen, weights, dweights, router, losses, dlogits);
}

void Ops::router_load(Stream& stream, const Tensor& probs, const Tensor& chosen, const Tensor& lse,
                      const Tensor& counted, const Tensor& load) {
  TROUPE_ASSERT(probs.dtype == DType::f32 && is_matrix(probs));
  TROUPE_ASSERT(chosen.dtype == DType::i32 && is_matrix(chosen));
  TROUPE_ASSERT(chosen.shape[0] == probs.shape[0]);
  TROUPE_ASSERT(is_of(load, DType::f32, 2 * probs.shape[1] + 3));
  check_tokens(lse, DType::f32, probs);
  check_tokens(counted, DType::i32, probs);
  run_router_load(stream, probs, chosen, lse, counted, load);
}

void Ops::sort_rows(Stream& stream, const Tensor& chosen, const Tensor& weights,
                    const Tensor& offsets, const Tensor& row_of, const Tensor& token_of,
                    const Tensor& row_weights) {
  const std::int64_t rows = chosen.num_elements();
  TROUPE_ASSERT(is_matrix(chosen) && is_of(weights, DType::f32, rows));
  TROUPE_ASSERT(offsets.dtype == DType::i32 && offsets.num_elements() >= 2);
  TROUPE_ASSERT(is_of(row_of, DType::i32, rows) && is_of(token_of, DType::i32, rows));
  TROUPE_ASSERT(is_of(row_weights, DType::f32, rows));
  check_indices(stream, chosen, offsets.num_elements() - 1);
  run_sort_rows(stream, chosen, weights, offsets, row_of, token_of, row_weights);
}

void Ops::gather_rows(Stream& stream, const Tensor& x, const Tensor& rows, const Tensor& y) {
  TROUPE_ASSERT(is_act(x.dtype) && x.dtype == y.dtype && is_matrix(x) && is_matrix(y));
  TROUPE_ASSERT(x.shape[1] == y.shape[1] && rows.num_elements() == y.shape[0]);
  check_indices(stream, rows, x.shape[0]);
  run_gather_rows(stream, x, rows, y);
}

void Ops::sum_rows(Stream& stream, const Tensor& x, const Tensor& row_of, const Tensor& y,
                   const Tensor& residual) {
  TROUPE_ASSERT(is_act(x.dtype) && x.dtype == y.dtype && is_matrix(x) && is_matrix(y));
  TROUPE_ASSERT(x.shape[1] == y.shape[1] && is_matrix(row_of) && row_of.shape[0] == y.shape[0]);
  TROUPE_ASSERT(!residual || is_of(residual, y.dtype, y.num_elements()));
  check_indices(stream, row_of, x.shape[0]);
  run_sum_rows(stream, x, row_of, y, residual);
}

void Ops::weighted_swiglu(Stream& stream, const Tensor& gate_up, const Tensor& weights,
                          const Tensor& y) {
  check_weighted(gate_up, weights, y);
  run_weighted_swiglu(stream, gate_up, weights, y);
}

void Ops::weighted_swiglu_backward(Stream& stream, const Tensor& gate_up, const Tensor& weights,
                                   const Tensor& dy, const Tensor& dgate_up,
                                   const Tensor& dweights) {
  check_weighted(gate_up, weights, dy);
  TROUPE_ASSERT(is_of(dgate_up, dy.dtype, gate_up.num_elements()));
  TROUPE_ASSERT(is_of(dweights, DType::f32, dy.shape[0]));
  run_weighted_swiglu_backward(stream, gate_up, weights, dy, dgate_up, dweights);
}

}  // namespace troupe::tensor
