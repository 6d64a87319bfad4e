#pragma once

#include <memory>

#include "tensor/device.h"

namespace troupe::stages {

/// The two streams of one stage: one for forwards and evaluation, and one for backwards and for
/// what happens once per step.
class Streams {
 public:
  explicit Streams(tensor::Device& device);

  tensor::Stream& forward() const { return *forward_; }
  tensor::Stream& backward() const { return *backward_; }
  /// Makes ops that forward() is given from now on run after all ops that backward() was given so
  /// far.
  void forward_waits() const;
  /// Blocks until all ops that both streams were given so far have run.
  void synchronize() const;

 private:
  std::unique_ptr<tensor::Stream> forward_, backward_;
  std::unique_ptr<tensor::Event> backward_was_here_;
};

}  // namespace troupe::stages
