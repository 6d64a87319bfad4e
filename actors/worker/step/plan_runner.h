#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "actors/monitors/event.h"
#include "actors/topology/program.h"
#include "actors/worker/step/action_clock.h"
#include "actors/worker/step/lane_rows.h"
#include "actors/worker/step/step_losses.h"
#include "actors/worker/step/step_tokens.h"
#include "stages/replicas/data_parallel.h"
#include "stages/stage/stage.h"
#include "transport/edges/channel.h"

namespace troupe::actors {

class Tap;

/// What happens between the actions of a step. Called by the compute thread.
class StepGate {
 public:
  virtual ~StepGate() = default;
  /// Called before the first action that is not Instruction::ahead. Blocks until it is known
  /// whether the weights stand that the actions before have read. If not, the step is given up.
  virtual bool weights_stand() = 0;
  /// Called after each action from then on.
  virtual void after_action() = 0;
};

/// What one rank measured in one step.
struct PlanResult {
  /// StepGate::weights_stand() was false: nothing else is told, and no gradient has changed.
  bool given_up = false;
  /// The losses of this rank's microbatches, added in ascending order; 0 without the head.
  double loss_sum = 0;
  std::int64_t targets = 0;  ///< of the step, those of all replicas; 0: of joined samples
  /// What of it is each source's, if the rank tells them apart (StepTokens::Source::num_sources).
  /// Valid until the runner's next step.
  std::span<const StepReport::SourceSum> sources;
  int bad_microbatch = -1;  ///< the first microbatch whose loss is not finite; -1: none
  double busy_s = 0;        ///< time in calls of the stage, without what follows
  /// Time in which nothing was computed because the next nodes lacked a collective of the shards.
  double collective_s = 0;
  double wall_s = 0;
  double longest_action_s = 0;
};

/// The interpreter of plans: runs a rank's program of one step, receiving, computing and sending in
/// the program's order. Plan, stage and channel meet only here. It queues nodes ahead of the device
/// and waits for messages and buffers alone: what it sends and frees leaves when the device has got
/// there. Used by the compute thread alone, except progress(). Allocates nothing after the first
/// steps.
class PlanRunner {
 public:
  struct Watch {
    bool record = false;       ///< whether to keep the times of every action
    Tap* tap = nullptr;        ///< looks at the tensors that are sent; null: none
    StepGate* gate = nullptr;  ///< null: the weights stand
    /// Whether the nodes of pairs alternate as the program says, on all shards alike, for groups
    /// whose collectives run in the order of the calls, and whose works do not block the host.
    bool in_program_order = false;
  };
  /// All references outlive the plan runner. `data_parallel` is told of the gradients that are
  /// added to in a step that its owner begins and finishes; null: nobody is.
  PlanRunner(stages::Stage& stage, transport::Channel& channel, tensor::Device& device,
             Program program, const StepTokens::Source& tokens,
             stages::DataParallel* data_parallel = nullptr);

  /// Trains on the samples of data step `data_step` (from 0). `message_step` keys the messages;
  /// both ends of every edge use the same. Afterwards this rank has added all that it has to its
  /// gradients, and the weights are unchanged. A step that is given up is so on all ranks; what
  /// they have sent each other of it is gone then, and it is run anew with another `message_step`.
  PlanResult train(std::int64_t data_step, std::uint64_t message_step, const Watch& watch);
  PlanResult train(std::int64_t data_step, std::uint64_t message_step) {
    return train(data_step, message_step, Watch{});
  }
  /// Runs a forward-only program through Stage::evaluate.
  PlanResult evaluate(std::int64_t data_step, std::uint64_t message_step);

  /// An action of a recorded step, and its times; they have neither its name nor its peers.
  struct Recorded {
    Instruction instruction;
    ActionsTraced::Action times;
  };
  /// The actions of the last step that was recorded; empty if none was.
  const std::vector<Recorded>& recorded() const { return recorded_; }
  /// The time that the last step waited for messages of this direction into this chunk of the
  /// stage.
  double wait_s(transport::Direction direction, int chunk) const;

  /// The number of instructions that the device has finished since construction, a sign of life.
  /// May be called from any thread.
  std::uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }

 private:
  struct Step;
  struct ActiveAction;
  struct Drain;
  static constexpr std::size_t kNotSent = static_cast<std::size_t>(-1);
  tensor::Tensor receive(const Instruction& next, const transport::MessageKey& key, Step& step);
  void add_wait(const Instruction& next, transport::Direction direction, double s, Step& step);
  tensor::Tensor shaped(const tensor::Tensor& message) const;
  tensor::Tensor acquire(const transport::MessageKey& key, Step& step);
  PlanResult give_up(const Step& step, Drain& drain);
  void evaluate_one(std::size_t instruction, Step& step);
  void send_evaluated(const ActiveAction& pass);
  void start(ActiveAction& pass, Step& step);
  void advance(ActiveAction& pass, Step& step);
  void compute(ActiveAction& pass);
  void hand_over(const ActiveAction& pass, const stages::NodeEffects& end, const Step& step);
  void count_finished(const ActiveAction& pass);
  void tell_of_gradients(const ActiveAction& pass, const stages::NodeEffects& end);
  void run(ActiveAction pass, Step& step);
  void run_pair(ActiveAction forward, ActiveAction backward, Step& step);
  const tensor::Work* awaited(const ActiveAction& pass) const;
  bool can_advance(const ActiveAction& pass) const;
  void wait_for_pair(ActiveAction& forward, ActiveAction& backward, Step& step);
  void read_times(Step& step);
  PlanResult finish(const Step& step, double wall_s);

  stages::Stage& stage_;
  transport::Channel& channel_;
  const Program program_;
  StepTokens tokens_;
  const LaneRows lanes_;
  stages::DataParallel* const data_parallel_;
  stages::UnitOrder units_;  // of all of the program's nodes
  StepLosses losses_;
  std::vector<double> waits_;  // by chunk of the stage and direction
  std::vector<Recorded> recorded_;
  ActionClock clock_;
  const tensor::Shape edge_shape_;
  std::vector<double> action_s_;            // scratch memory of read_times(), by instruction
  std::vector<std::size_t> sent_after_;     // by instruction: the piece that wrote what was sent
  std::uint64_t queued_ = 0;                // instructions whose end progress_ will count
  std::atomic<std::uint64_t> progress_{0};  // written by a thread of the device, too
};

}  // namespace troupe::actors
