#pragma once

#include <cstdint>

#include "actors/worker/step/step_tokens.h"
#include "tensor/device/device.h"

namespace troupe::actors {

/// The rows of packed microbatches where stages differ in width. A tensor between stages is made of
/// parts, each with a place of its own that has room for the most rows, so that what each neighbour
/// has of it always lies at the same place. The stage computes with the parts side by side, as
/// DocumentBatches lays them out. They are its lanes (stages::FeedSpec::lanes), with rows of their
/// own; or if lanes are alike equal parts of the rows in use, or of their elements. Does nothing
/// for one part, and where all microbatches have as many rows.
class LaneRows {
 public:
  /// `tokens` outlives the object.
  LaneRows(const StepTokens::Source& source, const StepTokens& tokens)
      : tokens_(tokens),
        capacity_(source.rows.capacity),
        are_alike_(source.pieces > 0),
        parts_(source.rows.step == 0 ? 1
               : are_alike_          ? source.pieces
                                     : source.lanes) {}

  bool are_apart() const { return parts_ > 1; }
  /// Moves the parts of x, a tensor of edge_shape(), from their places side by side, and clears the
  /// rows after them that are computed with, in the stream's order.
  void gather(tensor::Stream& stream, const tensor::Tensor& x, int microbatch) const;
  /// Moves the parts of x to their places.
  void spread(tensor::Stream& stream, const tensor::Tensor& x, int microbatch) const;

 private:
  /// Rows of x that are in use, and those of a part.
  std::int64_t rows_in_use(const tensor::Tensor& x, int microbatch) const;
  std::int64_t rows_of(const tensor::Tensor& x, int microbatch, int part) const;

  const StepTokens& tokens_;
  const std::int64_t capacity_;  // rows of a microbatch
  const bool are_alike_;
  const int parts_;
};

}  // namespace troupe::actors
