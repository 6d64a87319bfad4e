#include "stages/decoder/layers/streams.h"

namespace troupe::stages {

Streams::Streams(tensor::Device& device)
    : forward_(device.make_stream()),
      backward_(device.make_stream()),
      backward_was_here_(device.make_event()) {}

void Streams::forward_waits() const {
  backward_was_here_->record(*backward_);
  backward_was_here_->wait(*forward_);
}

void Streams::synchronize() const {
  forward_->synchronize();
  backward_->synchronize();
}

}  // namespace troupe::stages
