#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "actors/topology/program.h"
#include "stages/stage.h"
#include "stages/token_data.h"
#include "transport/channel.h"

namespace troupe::actors {

class Tap;

/// What one rank measured in one step.
struct PlanResult {
  double loss_sum = 0;      ///< of this rank's microbatches in ascending order; 0 without the head
  int bad_microbatch = -1;  ///< the first with a loss that is not finite
  double busy_s = 0;        ///< inside the stage's calls
  double wall_s = 0;
  double longest_action_s = 0;
};

/// The interpreter: runs a rank's program of one step, receiving, computing and sending in its
/// order. The only place where plan, stage and channel meet. Used by the runner thread alone,
/// except the atomics of progress(). Allocates nothing after construction.
class PlanRunner {
 public:
  struct Data {
    const stages::DataFeed* feed = nullptr;
    int replica = 0;
    std::int64_t tokens = 0;  ///< of a microbatch
    int num_microbatches = 0;
  };
  struct Watch {
    bool record = false;  ///< keep the times of every action
    Tap* tap = nullptr;   ///< looks at what is sent; null: nobody does
  };
  /// All references outlive the runner.
  PlanRunner(stages::Stage& stage, transport::Channel& channel, Program program, const Data& data);

  /// Trains on the samples of data step `data_step` (from 0). `message_step` keys the messages;
  /// both ends of every edge use the same. Gradients are complete for this rank after it; nothing
  /// is applied.
  PlanResult train(std::int64_t data_step, std::uint64_t message_step, const Watch& watch);
  PlanResult train(std::int64_t data_step, std::uint64_t message_step) {
    return train(data_step, message_step, Watch{});
  }
  /// Runs a forward-only program through Stage::evaluate.
  PlanResult evaluate(std::int64_t data_step, std::uint64_t message_step);

  /// An action of a recorded step. Times are of the steady clock.
  struct Recorded {
    Instruction instruction;
    double begin_s = 0;
    double end_s = 0;
    double sent_s = 0;    ///< when its output left; 0: it has none
    double busy_s = 0;    ///< in the stage's calls: less than end - begin where it is one of a pair
    double waited_s = 0;  ///< for its message and a credit, before begin_s
  };
  /// The actions of the last step that was recorded; empty before.
  const std::vector<Recorded>& recorded() const { return recorded_; }
  /// How long the last step waited for messages of this direction into this chunk of the stage.
  double wait_s(transport::Direction direction, int chunk) const;

  /// Instructions finished since construction; read by any thread as a sign of life.
  std::uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }

 private:
  struct Step;
  struct ActiveAction;
  struct Drain;
  tensor::Tensor receive(const Instruction& next, const transport::MessageKey& key, Step& step);
  void add_wait(const Instruction& next, transport::Direction direction, double s, Step& step);
  tensor::Tensor acquire(const transport::MessageKey& key, Step& step);
  void send(const transport::MessageKey& key, const tensor::Tensor& tensor, const Step& step);
  void evaluate_one(const Instruction& next, Step& step);
  void start(ActiveAction& pass, Step& step);
  void advance(ActiveAction& pass, Step& step);
  void compute(ActiveAction& pass);
  void hand_over(const ActiveAction& pass, const stages::NodeEnd& end, const Step& step);
  void run(ActiveAction pass, Step& step);
  void run_pair(ActiveAction forward, ActiveAction backward, Step& step);
  void wait_for_pair(ActiveAction& forward, ActiveAction& backward, Step& step);
  void load_tokens(const Instruction& next, const Step& step);
  PlanResult finish(const Step& step, double wall_s);

  stages::Stage& stage_;
  transport::Channel& channel_;
  const Program program_;
  const Data data_;
  std::vector<std::int32_t> ids_, targets_;
  std::vector<double> losses_;  // by microbatch
  std::vector<double> waits_;   // by chunk of the stage and direction
  std::vector<Recorded> recorded_;
  std::atomic<std::uint64_t> progress_{0};
};

}  // namespace troupe::actors
