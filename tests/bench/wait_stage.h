#pragma once

#include <time.h>

#include <vector>

#include "tests/support/null_stage.h"

namespace troupe::bench {

/// A stage that waits instead of computing, so that more ranks than cores keep their times.
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

  int num_nodes(int) const override { return kNodes; }
  stages::ForwardResult forward_node(const stages::ForwardCall&, int) override {
    wait(times_.forward / kNodes);
    return {};
  }
  void backward_node(const stages::BackwardCall& call, int) override {
    const bool with_weights = call.deferred == stages::BackwardCall::kWithWeights;
    wait((times_.input_gradient + (with_weights ? times_.weight_gradient : 0)) / kNodes);
  }
  void backward_weight(int, int, int) override { wait(times_.weight_gradient); }

 private:
  static constexpr int kNodes = 4;

  static void wait(double seconds) {
    timespec end{};
    clock_gettime(CLOCK_MONOTONIC, &end);
    const auto ns = end.tv_nsec + static_cast<long>(seconds * 1e9);
    end.tv_sec += ns / 1'000'000'000;
    end.tv_nsec = ns % 1'000'000'000;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, nullptr) != 0) continue;
  }

  Times times_;
};

}  // namespace troupe::bench
