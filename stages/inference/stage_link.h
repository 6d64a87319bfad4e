#pragma once

#include "tensor/device/device.h"

namespace troupe::stages {

/// How a rank's layers reach those before and after them, of which a stage knows nothing: by
/// whatever carries tensors between ranks. What is sent is received once, in the same order.
class StageLink {
 public:
  virtual ~StageLink() = default;
  /// Makes ops that `stream` is given from now on find in x what the stage before has sent. Blocks
  /// the host until that is here. Throws Error{unavailable} if it never will be.
  virtual void receive(tensor::Stream& stream, const tensor::Tensor& x) = 0;
  /// Sends x, as the ops that `stream` was given so far leave it, to the stage after; x may be
  /// overwritten by later ones. Blocks while that one has no room.
  virtual void send(tensor::Stream& stream, const tensor::Tensor& x) = 0;
};

}  // namespace troupe::stages
