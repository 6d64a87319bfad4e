#pragma once

#include <time.h>

#include <vector>

#include "tests/support/null_stage.h"

namespace troupe::bench {

/// Sleeps, as exactly as the kernel can.
inline void pause(double seconds) {
  timespec end{};
  clock_gettime(CLOCK_MONOTONIC, &end);
  const auto ns = end.tv_nsec + static_cast<long>(seconds * 1e9);
  end.tv_sec += ns / 1'000'000'000;
  end.tv_nsec = ns % 1'000'000'000;
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, nullptr) != 0) continue;
}

/// A stage that waits instead of computing, so that more ranks than cores keep their times. All of
/// a weight gradient's time is that of feed-forward, so that the output of a backward leaves when
/// little of the backward is left, as in the simulator.
class WaitStage final : public test::NullStage {
 public:
  /// Seconds of one chunk's actions.
  struct Times {
    double forward = 0;
    double input_gradient = 0;
    double weight_gradient = 0;
  };
  WaitStage(int num_chunks, tensor::Shape edge, const Times& times)
      : NullStage(num_chunks, edge), times_(times) {}

  void forward_node(const stages::ForwardCall&, int) override { pause(times_.forward / kNodes); }
  void backward_node(const stages::BackwardCall& call, int node) override {
    const stages::Node& which = row(call.pass).nodes[static_cast<std::size_t>(node)];
    if (which.kind == stages::Node::Kind::input_gradient)
      pause(times_.input_gradient / kNodes);
    else if (which.module == stages::Module::feed_forward)
      pause(times_.weight_gradient);
  }

 private:
  static constexpr int kNodes = 4;  ///< number of nodes of a forward, and of the input gradients

  Times times_;
};

}  // namespace troupe::bench
