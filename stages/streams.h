#pragma once

#include <memory>

#include "tensor/device.h"

namespace troupe::stages {

/// The streams of one stage: forwards and evaluation on one; backwards, and what happens once a
/// step, on the other.
class Streams {
 public:
  explicit Streams(tensor::Device& device);

  tensor::Stream& forward() const { return *forward_; }
  tensor::Stream& backward() const { return *backward_; }
  /// What forward() is given from now on runs after all that backward() was given so far.
  void forward_waits() const;
  /// Blocks until all that both were given so far has run.
  void synchronize() const;

 private:
  std::unique_ptr<tensor::Stream> forward_, backward_;
  std::unique_ptr<tensor::Event> backward_was_here_;
};

}  // namespace troupe::stages
