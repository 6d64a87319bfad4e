#pragma once

#include <memory>
#include <utility>

#include "tensor/device/device.h"

namespace troupe::stages {

/// The two streams of one stage: one for forwards and evaluation, and one for backwards and for
/// what happens once per step.
class Streams {
 public:
  explicit Streams(tensor::Device& device);
  /// Streams that both are this one's backward stream, on which backwards compute again.
  Streams within_backward() const { return {backward_, backward_, backward_was_here_}; }

  tensor::Stream& forward() const { return *forward_; }
  tensor::Stream& backward() const { return *backward_; }
  /// Makes ops that forward() is given from now on run after all ops that backward() was given so
  /// far.
  void forward_waits() const;
  /// Blocks until all ops that both streams were given so far have run.
  void synchronize() const;

 private:
  Streams(std::shared_ptr<tensor::Stream> forward, std::shared_ptr<tensor::Stream> backward,
          std::shared_ptr<tensor::Event> event)
      : forward_(std::move(forward)),
        backward_(std::move(backward)),
        backward_was_here_(std::move(event)) {}

  std::shared_ptr<tensor::Stream> forward_, backward_;
  std::shared_ptr<tensor::Event> backward_was_here_;
};

}  // namespace troupe::stages
