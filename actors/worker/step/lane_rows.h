#pragma once

#include <cstdint>

#include "actors/worker/step/step_tokens.h"
#include "tensor/device/device.h"

namespace troupe::actors {

/// The rows of packed microbatches on a stage that computes those of several lanes at a time
/// (stages::FeedSpec::lanes). In a tensor between stages each lane has a place of its own with room
/// for the most rows, so that pieces of lanes lie where they always do. The stage computes with the
/// lanes side by side, as DocumentBatches lays them out. Does nothing for one lane, and where all
/// microbatches have as many rows.
class LaneRows {
 public:
  /// `tokens` outlives the object.
  LaneRows(const StepTokens::Source& source, const StepTokens& tokens)
      : tokens_(tokens),
        lanes_(source.rows.step > 0 ? source.lanes : 1),
        room_(source.rows.capacity / source.lanes) {}

  bool are_apart() const { return lanes_ > 1; }
  /// Moves the lanes of x [capacity, C] from their places side by side, and clears the rows after
  /// them that are computed with, in the stream's order.
  void gather(tensor::Stream& stream, const tensor::Tensor& x, int microbatch) const;
  /// Moves the lanes of x to their places.
  void spread(tensor::Stream& stream, const tensor::Tensor& x, int microbatch) const;

 private:
  const StepTokens& tokens_;
  const int lanes_;
  const std::int64_t room_;  // rows from one lane's place to the next one's
};

}  // namespace troupe::actors
