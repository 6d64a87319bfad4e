#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "actors/topology/program.h"
#include "actors/worker/step_tokens.h"
#include "stages/stage.h"
#include "transport/channel.h"

namespace troupe::actors {

class Tap;

/// What one rank measured in one step.
struct PlanResult {
  /// The losses of this rank's microbatches, added in ascending order; 0 without the head.
  double loss_sum = 0;
  int bad_microbatch = -1;  ///< the first microbatch whose loss is not finite; -1: none
  double busy_s = 0;        ///< time in calls of the stage, without what follows
  /// Time in which nothing was computed because the next nodes lacked a collective of the shards.
  double collective_s = 0;
  double wall_s = 0;
  double longest_action_s = 0;
};

/// The interpreter of plans: runs a rank's program of one step, receiving, computing and sending in
/// the program's order. Plan, stage and channel meet only here. Used by the compute thread alone,
/// except progress(). Allocates nothing after construction.
class PlanRunner {
 public:
  struct Watch {
    bool record = false;  ///< whether to keep the times of every action
    Tap* tap = nullptr;   ///< looks at the tensors that are sent; null: none
  };
  /// All references outlive the plan runner.
  PlanRunner(stages::Stage& stage, transport::Channel& channel, Program program,
             const StepTokens::Source& tokens);

  /// Trains on the samples of data step `data_step` (from 0). `message_step` keys the messages;
  /// both ends of every edge use the same. Afterwards the gradients of this rank are complete, and
  /// the weights unchanged.
  PlanResult train(std::int64_t data_step, std::uint64_t message_step, const Watch& watch);
  PlanResult train(std::int64_t data_step, std::uint64_t message_step) {
    return train(data_step, message_step, Watch{});
  }
  /// Runs a forward-only program through Stage::evaluate.
  PlanResult evaluate(std::int64_t data_step, std::uint64_t message_step);

  /// An action of a recorded step; times are of the steady clock.
  struct Recorded {
    Instruction instruction;
    double begin_s = 0;
    double end_s = 0;
    double sent_s = 0;  ///< when the action's output was sent; 0: it has none
    /// Time in calls of the stage, without what follows; less than end_s - begin_s if the action is
    /// one of a pair.
    double busy_s = 0;
    /// Time in which it lacked a collective of the shards, and the other action of a pair, too,
    /// could not go on.
    double collective_s = 0;
    double waited_s = 0;  ///< time waiting for its message and a credit, before begin_s
  };
  /// The actions of the last step that was recorded; empty if none was.
  const std::vector<Recorded>& recorded() const { return recorded_; }
  /// The time that the last step waited for messages of this direction into this chunk of the
  /// stage.
  double wait_s(transport::Direction direction, int chunk) const;

  /// The number of instructions finished since construction, a sign of life. May be called from any
  /// thread.
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
  const tensor::Work* awaited(const ActiveAction& pass) const;
  bool can_advance(const ActiveAction& pass) const;
  void wait_for_pair(ActiveAction& forward, ActiveAction& backward, Step& step);
  PlanResult finish(const Step& step, double wall_s);

  stages::Stage& stage_;
  transport::Channel& channel_;
  const Program program_;
  StepTokens tokens_;
  std::vector<double> losses_;  // by microbatch
  std::vector<double> waits_;   // by chunk of the stage and direction
  std::vector<Recorded> recorded_;
  std::atomic<std::uint64_t> progress_{0};
};

}  // namespace troupe::actors
