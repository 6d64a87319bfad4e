#pragma once

#include <cstdint>
#include <span>

#include "actors/topology/program.h"
#include "actors/worker/step/plan_runner.h"

// What the parts of the interpreter of plans share: plan_runner.cpp, and plan_runner_pairs.cpp,
// which runs two actions in turn. Nobody else includes it.

namespace troupe::actors {

struct PlanRunner::Step {
  std::uint64_t message_step = 0;
  double busy_s = 0;
  double longest_s = 0;
  /// Time outside of calls in which neither action of a pair could go on for a collective, or
  /// tokens came from another shard.
  double collective_s = 0;
  Watch watch;
  /// The times of the action that waits; null: not recorded.
  ActionsTraced::Action* record = nullptr;
};

/// The state of an action while it runs, from its first node to its last.
struct PlanRunner::ActiveAction {
  const Instruction& next;
  std::size_t number;  ///< of the instruction in the program
  ActionsTraced::Action* record = nullptr;
  transport::Direction direction = transport::Direction::forward;
  transport::Needs needs{};  ///< the message and the buffer that it needs to start
  bool started = false;
  std::span<const stages::NodeEffects> nodes{};  ///< the action's nodes, set when it starts
  int node = 0;                                  ///< number of the next node
  tensor::Tensor input{};                        ///< the message that was received
  tensor::Tensor output{};                       ///< the buffer for the output
  stages::BatchPlace place{};
  bool is_paired = false;    ///< whether its nodes alternate with those of another action
  bool is_in_piece = false;  ///< whether a piece of it has begun and not ended
  double waited_s = 0;       ///< Stage::collective_wait_s() when the piece began

  ActiveAction(const Program& program, std::size_t index, std::uint64_t step,
               ActionsTraced::Action* kept)
      : next(program[index]), number(index), record(kept) {
    const bool forward = next.op == schedules::Op::F;
    if (!forward) direction = transport::Direction::backward;
    if (next.op == schedules::Op::W) return;  // it reads only what this rank holds
    if (!(forward ? next.first : next.last)) needs.message = into(next, step, direction);
    if (!(forward ? next.last : next.first)) needs.buffer = out_of(next, step, direction);
  }
  bool done() const { return started && node == static_cast<int>(nodes.size()); }
  bool is_brief() const { return !done() && nodes[static_cast<std::size_t>(node)].brief; }
};

}  // namespace troupe::actors
