#pragma once

#include <memory>

#include "stages/decoder/layers/arena.h"
#include "stages/decoder/layers/layer_shape.h"
#include "stages/decoder/layers/routed_tensors.h"
#include "tensor/device/host_copies.h"
#include "tensor/device/ops.h"
#include "tensor/parallel/expert_parallel.h"

namespace troupe::stages {

/// The way of rows to the experts of other replicas and back (arXiv 2006.16668). A forward of a
/// layer: gather_offsets(), then read_counts() when it is done, send() of weights and of rows,
/// arrange(); the experts compute; send_back() of their results. A backward sends gradients of
/// results the same way, and those of rows and of weights back. All replicas of a group make the
/// same calls in the same order.
class ExpertExchange {
 public:
  using Direction = tensor::ExpertParallel::Direction;
  using Work = std::unique_ptr<tensor::Work>;

  ExpertExchange(const LayerSpec& spec, tensor::Device& device);

  void lay_out(Arena& arena, ReceivedRows& rows) const;
  void lay_out_scratch(Arena& arena, RoutedScratch& scratch) const;
  RowCounts make_counts() const;

  Work gather_offsets(tensor::Stream& stream, Direction direction, const RouterChoice& choice,
                      const ReceivedRows& rows) const;
  /// Fills rows.counts. The host waits for the stream.
  void read_counts(tensor::Stream& stream, const ReceivedRows& rows) const;
  /// `to` [X, n] receives the rows for this replica's experts of all members' `from` [R, n]; n is 1
  /// or C.
  Work send(tensor::Stream& stream, Direction direction, const ReceivedRows& rows,
            const tensor::Tensor& from, const tensor::Tensor& to) const;
  Work send_back(tensor::Stream& stream, Direction direction, const ReceivedRows& rows,
                 const tensor::Tensor& from, const tensor::Tensor& to) const;
  /// Orders what has come, scratch.travelled and scratch.numbers, by experts.
  void arrange(tensor::Stream& stream, const ReceivedRows& rows,
               const RoutedScratch& scratch) const;
  /// The tensor cut to the rows that have come.
  static tensor::Tensor in_use(tensor::Tensor x, const ReceivedRows& rows);

 private:
  tensor::ProcessGroup& group(Direction direction) const { return *(parallel_.groups->*direction); }
  /// How many rows of a member are for an expert, by the offsets of all in host memory.
  std::int64_t rows_for(const tensor::Tensor& offsets, std::int64_t member,
                        std::int64_t expert) const;

  LayerShape shape_;
  tensor::ExpertParallel parallel_;
  tensor::Ops& ops_;
  /// Used by the compute thread, in forwards alone.
  std::unique_ptr<tensor::HostCopies> host_;
};

}  // namespace troupe::stages
