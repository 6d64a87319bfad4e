#include "stages/decoder/layers/routed_experts.h"

// What RoutedExperts computes if replicas share experts out, between the collectives.

namespace troupe::stages {

using tensor::Tensor;

RowCounts RoutedExperts::make_counts() const {
  return exchange_ ? exchange_->make_counts() : RowCounts{};
}

Tensor RoutedExperts::lay_out_results_gradient(Arena& arena) const {
  return exchange_ ? arena.take(shape_.dtype, {shape_.X, shape_.C}) : Tensor{};
}

// --- forward

void RoutedExperts::gather_rows(tensor::Stream& stream, const Tensor& x,
                                const RoutedActivations& kept, const RoutedScratch& scratch) const {
  ops_.gather_rows(stream, x, kept.choice.token_of, scratch.rows);
}

RoutedExperts::Work RoutedExperts::gather_offsets(tensor::Stream& stream, Direction direction,
                                                  const RoutedActivations& kept) const {
  return exchange_->gather_offsets(stream, direction, kept.choice, kept.received);
}

RoutedExperts::Work RoutedExperts::send_weights(tensor::Stream& stream, Direction direction,
                                                const RoutedActivations& kept,
                                                const RoutedScratch& scratch) const {
  exchange_->read_counts(stream, kept.received);
  return exchange_->send(stream, direction, kept.received, kept.choice.row_weights,
                         scratch.numbers);
}

RoutedExperts::Work RoutedExperts::send_rows(tensor::Stream& stream, Direction direction,
                                             const RoutedActivations& kept,
                                             const RoutedScratch& scratch) const {
  return exchange_->send(stream, direction, kept.received, scratch.rows, scratch.travelled);
}

void RoutedExperts::arrange_rows(tensor::Stream& stream, const RoutedActivations& kept,
                                 const RoutedScratch& scratch) const {
  exchange_->arrange(stream, kept.received, scratch);
}

void RoutedExperts::forward_received(tensor::Stream& stream, const SublayerWeights& weights,
                                     const RoutedActivations& kept) const {
  const Rows own = rows_of(kept);
  in_->forward(stream, ExpertExchange::in_use(kept.received.rows, kept.received), own.offsets,
               weights.packed.in, own.inner);
  forward_hidden(stream, kept);
}

void RoutedExperts::forward_results(tensor::Stream& stream, const SublayerWeights& weights,
                                    const RoutedActivations& kept,
                                    const RoutedScratch& scratch) const {
  const ReceivedRows& received = kept.received;
  const Rows own = rows_of(kept);
  const Tensor computed = ExpertExchange::in_use(scratch.computed, received);
  out_->forward(stream, own.hidden, own.offsets, weights.packed.out, computed);
  ops_.gather_rows(stream, computed, flat(ExpertExchange::in_use(received.row_of, received)),
                   ExpertExchange::in_use(scratch.travelled, received));
}

RoutedExperts::Work RoutedExperts::return_results(tensor::Stream& stream, Direction direction,
                                                  const RoutedActivations& kept,
                                                  const RoutedScratch& scratch) const {
  return exchange_->send_back(stream, direction, kept.received, scratch.travelled, scratch.results);
}

void RoutedExperts::sum_results(tensor::Stream& stream, const RoutedActivations& kept,
                                const RoutedScratch& scratch, const Tensor& y,
                                const Tensor& residual) const {
  ops_.sum_rows(stream, scratch.results, kept.choice.row_of, y, residual);
}

// --- backward

void RoutedExperts::gather_gradient(tensor::Stream& stream, const Tensor& dy,
                                    const RoutedActivations& kept,
                                    const RoutedScratch& scratch) const {
  ops_.gather_rows(stream, dy, kept.choice.token_of, scratch.results);
}

RoutedExperts::Work RoutedExperts::send_gradient(tensor::Stream& stream, Direction direction,
                                                 const RoutedActivations& kept,
                                                 const RoutedScratch& scratch) const {
  return exchange_->send(stream, direction, kept.received, scratch.results, scratch.travelled);
}

void RoutedExperts::received_gradient(tensor::Stream& stream, const SublayerWeights& weights,
                                      const RoutedActivations& kept, const RoutedScratch& scratch,
                                      const Tensor& dresults) const {
  const ReceivedRows& received = kept.received;
  const auto in_use = [&](const Tensor& x) { return ExpertExchange::in_use(x, received); };
  const Rows own = rows_of(kept);
  const Tensor dy = in_use(dresults), dhidden = in_use(scratch.dhidden);
  const Tensor dweights = in_use(scratch.drow_weights), drows = in_use(scratch.computed);
  ops_.gather_rows(stream, in_use(scratch.travelled), in_use(received.came_as), dy);
  out_->input_gradient(stream, dy, own.offsets, weights.packed.out, dhidden);
  ops_.weighted_swiglu_backward(stream, own.inner, own.weights, dhidden, own.inner, dweights);
  in_->input_gradient(stream, own.inner, own.offsets, weights.packed.in, drows);
  const Tensor row_of = flat(in_use(received.row_of));
  ops_.gather_rows(stream, drows, row_of, in_use(scratch.travelled));
  ops_.gather_rows(stream, column(dweights), row_of, column(in_use(scratch.numbers)));
}

RoutedExperts::Work RoutedExperts::return_weights_gradient(tensor::Stream& stream,
                                                           Direction direction,
                                                           const RoutedActivations& kept,
                                                           const RoutedScratch& scratch) const {
  const Tensor of_own_rows{scratch.drow_weights.data, scratch.drow_weights.dtype,
                           kept.choice.row_weights.shape};
  return exchange_->send_back(stream, direction, kept.received, scratch.numbers, of_own_rows);
}

RoutedExperts::Work RoutedExperts::return_rows_gradient(tensor::Stream& stream, Direction direction,
                                                        const RoutedActivations& kept,
                                                        const RoutedScratch& scratch) const {
  return exchange_->send_back(stream, direction, kept.received, scratch.travelled, scratch.rows);
}

}  // namespace troupe::stages
