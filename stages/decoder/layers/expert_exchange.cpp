#include "stages/decoder/layers/expert_exchange.h"

#include <algorithm>

#include "tensor/device/process_group.h"

namespace troupe::stages {

using tensor::DType;
using tensor::Tensor;

ExpertExchange::ExpertExchange(const LayerSpec& spec, tensor::Device& device)
    : shape_(spec),
      parallel_(spec.experts),
      ops_(device.ops()),
      host_(std::make_unique<tensor::HostCopies>(device)) {}

// --- memory

void ExpertExchange::lay_out(Arena& arena, ReceivedRows& rows) const {
  rows.offsets_of_all = arena.take(DType::i32, {parallel_.size, shape_.E + 1});
  rows.offsets = arena.take(DType::i32, {shape_.own_experts + 1});
  rows.row_of = arena.take(DType::i32, {shape_.X, 1});
  rows.came_as = arena.take(DType::i32, {shape_.X});
  rows.weights = arena.take(DType::f32, {shape_.X});
  rows.rows = arena.take(shape_.dtype, {shape_.X, shape_.C});
}

void ExpertExchange::lay_out_scratch(Arena& arena, RoutedScratch& scratch) const {
  scratch.travelled = arena.take(shape_.dtype, {shape_.X, shape_.C});
  scratch.computed = arena.take(shape_.dtype, {shape_.X, shape_.C});
  scratch.numbers = arena.take(DType::f32, {shape_.X});
  scratch.experts = arena.take(DType::i32, {shape_.X, 1});
}

RowCounts ExpertExchange::make_counts() const {
  const std::vector<std::int64_t> of_members(static_cast<std::size_t>(parallel_.size));
  return {.sent = of_members,
          .received = of_members,
          .wide_sent = of_members,
          .wide_received = of_members,
          .by_expert = std::vector<std::int32_t>(
              static_cast<std::size_t>(parallel_.size * shape_.own_experts))};
}

Tensor ExpertExchange::in_use(Tensor x, const ReceivedRows& rows) {
  use_rows(x, rows.counts->rows);
  return x;
}

// --- what travels

ExpertExchange::Work ExpertExchange::gather_offsets(tensor::Stream& stream, Direction direction,
                                                    const RouterChoice& choice,
                                                    const ReceivedRows& rows) const {
  return group(direction).all_gather(stream, choice.offsets, rows.offsets_of_all);
}

std::int64_t ExpertExchange::rows_for(const Tensor& offsets, std::int64_t member,
                                      std::int64_t expert) const {
  const auto* of_member = offsets.as<std::int32_t>() + member * (shape_.E + 1);
  return of_member[expert + 1] - of_member[expert];
}

void ExpertExchange::read_counts(tensor::Stream& stream, const ReceivedRows& rows) const {
  stream.synchronize();
  const Tensor offsets = host_->on_host(rows.offsets_of_all);
  RowCounts& counts = *rows.counts;
  counts.rows = 0;
  for (std::int64_t member = 0; member < parallel_.size; ++member) {
    const auto i = static_cast<std::size_t>(member);
    counts.sent[i] = counts.received[i] = 0;
    for (std::int64_t e = 0; e < shape_.own_experts; ++e) {
      counts.sent[i] += rows_for(offsets, parallel_.member, member * shape_.own_experts + e);
      const std::int64_t received =
          rows_for(offsets, member, parallel_.member * shape_.own_experts + e);
      counts.by_expert[static_cast<std::size_t>(member * shape_.own_experts + e)] =
          static_cast<std::int32_t>(received);
      counts.received[i] += received;
    }
    counts.wide_sent[i] = counts.sent[i] * shape_.C;
    counts.wide_received[i] = counts.received[i] * shape_.C;
    counts.rows += counts.received[i];
  }
}

ExpertExchange::Work ExpertExchange::send(tensor::Stream& stream, Direction direction,
                                          const ReceivedRows& rows, const Tensor& from,
                                          const Tensor& to) const {
  const RowCounts& counts = *rows.counts;
  const bool is_wide = from.shape.rank() == 2;
  return group(direction).all_to_all(stream, from, in_use(to, rows),
                                     is_wide ? counts.wide_sent : counts.sent,
                                     is_wide ? counts.wide_received : counts.received);
}

ExpertExchange::Work ExpertExchange::send_back(tensor::Stream& stream, Direction direction,
                                               const ReceivedRows& rows, const Tensor& from,
                                               const Tensor& to) const {
  const RowCounts& counts = *rows.counts;
  const bool is_wide = to.shape.rank() == 2;
  return group(direction).all_to_all(stream, in_use(from, rows), to,
                                     is_wide ? counts.wide_received : counts.received,
                                     is_wide ? counts.wide_sent : counts.sent);
}

void ExpertExchange::arrange(tensor::Stream& stream, const ReceivedRows& rows,
                             const RoutedScratch& scratch) const {
  const Tensor experts = in_use(scratch.experts, rows);
  host_->fill(experts, [&](const Tensor& host) {
    auto* next = host.as<std::int32_t>();
    std::int64_t i = 0;
    for (const std::int32_t count : rows.counts->by_expert)
      next = std::fill_n(next, count, static_cast<std::int32_t>(i++ % shape_.own_experts));
  });
  host_->synchronize();
  Tensor numbers = in_use(scratch.numbers, rows);
  numbers.shape = {rows.counts->rows, 1};
  const Tensor came_as = in_use(rows.came_as, rows);
  ops_.sort_rows(stream, experts, numbers, rows.offsets, in_use(rows.row_of, rows), came_as,
                 in_use(rows.weights, rows));
  ops_.gather_rows(stream, in_use(scratch.travelled, rows), came_as, in_use(rows.rows, rows));
}

}  // namespace troupe::stages
