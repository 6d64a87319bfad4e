#include "actors/worker/plan_runner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "actors/worker/tap.h"
#include "tensor/error.h"

namespace troupe::actors {
namespace {

using Clock = std::chrono::steady_clock;
using schedules::Op;
using tensor::Tensor;
using transport::Direction;
using transport::MessageKey;

double seconds_of(Clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}
double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The key of the message that a chunk receives: its input activation, or the gradient of its
/// output.
MessageKey into(const Instruction& next, std::uint64_t step, Direction direction) {
  return {step, next.microbatch, next.global_chunk, direction};
}
/// The key of the message that a chunk sends: its output to the chunk after it, or the gradient of
/// its input to the chunk before it.
MessageKey out_of(const Instruction& next, std::uint64_t step, Direction direction) {
  const int to = next.global_chunk + (direction == Direction::forward ? 1 : -1);
  return {step, next.microbatch, to, direction};
}

stages::Pass pass_of(Op op) {
  switch (op) {
    case Op::F:
      return stages::Pass::forward;
    case Op::B:
      return stages::Pass::backward;
    case Op::I:
      return stages::Pass::input_gradient;
    case Op::W:
      return stages::Pass::weight_gradient;
  }
  assert_failed("op is an Op", __FILE__, __LINE__);
}

std::size_t wait_index(Direction direction, int chunk) {
  return 2 * static_cast<std::size_t>(chunk) + static_cast<std::size_t>(direction);
}

}  // namespace

struct PlanRunner::Step {
  std::uint64_t message_step = 0;
  double busy_s = 0;
  double longest_s = 0;
  /// Time outside of calls in which neither action of a pair could go on for a collective, or
  /// tokens came from another shard.
  double collective_s = 0;
  Tap* tap = nullptr;
  Recorded* record = nullptr;  ///< record of the action that computes or waits; null: not recorded

  /// Runs one call of the stage and returns its seconds. If an action takes several calls, its
  /// record keeps the begin of the first and the end of the last.
  template <typename Call>
  double timed(Call&& call) {
    const auto begin = Clock::now();
    call();
    const auto end = Clock::now();
    const double s = std::chrono::duration<double>(end - begin).count();
    busy_s += s;
    longest_s = std::max(longest_s, s);
    if (record) {
      if (record->end_s == 0) record->begin_s = seconds_of(begin);
      record->end_s = seconds_of(end);
      record->busy_s += s;
    }
    return s;
  }
};

/// The state of an action while it runs, from its first node to its last.
struct PlanRunner::ActiveAction {
  const Instruction& next;
  Recorded* record = nullptr;
  Direction direction = Direction::forward;
  transport::Needs needs{};  ///< the message and the buffer that it needs to start
  bool started = false;
  std::span<const stages::NodeEnd> nodes{};  ///< the action's nodes, set when it starts
  int node = 0;                              ///< number of the next node
  Tensor input{};                            ///< the message that was received
  Tensor output{};                           ///< the buffer for the output
  stages::BatchPlace place{};
  double loss_sum = 0;
  double busy_s = 0;

  ActiveAction(const Instruction& instruction, std::uint64_t step, Recorded* kept)
      : next(instruction), record(kept) {
    const bool forward = next.op == Op::F;
    if (!forward) direction = Direction::backward;
    if (next.op == Op::W) return;  // it reads only what this rank holds
    if (!(forward ? next.first : next.last)) needs.message = into(next, step, direction);
    if (!(forward ? next.last : next.first)) needs.buffer = out_of(next, step, direction);
  }
  bool done() const { return started && node == static_cast<int>(nodes.size()); }
  bool is_brief() const { return !done() && nodes[static_cast<std::size_t>(node)].brief; }
};

/// Waits at its end until the stage has done all it was called for. Then gradients are complete,
/// and if an error ends the step, nothing uses the channel's buffers any more.
struct PlanRunner::Drain {
  explicit Drain(stages::Stage& of) : stage(of) {}
  ~Drain() { stage.synchronize(); }
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;
  stages::Stage& stage;
};

PlanRunner::PlanRunner(stages::Stage& stage, transport::Channel& channel, Program program,
                       const StepTokens::Source& tokens)
    : stage_(stage),
      channel_(channel),
      program_(std::move(program)),
      tokens_(tokens),
      losses_(static_cast<std::size_t>(tokens.num_microbatches)) {
  for (const Instruction& next : program_)
    waits_.resize(std::max(waits_.size(), wait_index(Direction::backward, next.chunk) + 1));
}

PlanResult PlanRunner::train(std::int64_t data_step, std::uint64_t message_step,
                             const Watch& watch) {
  const auto begin = Clock::now();
  Step step{.message_step = message_step, .tap = watch.tap};
  std::fill(losses_.begin(), losses_.end(), 0.0);
  std::fill(waits_.begin(), waits_.end(), 0.0);
  if (watch.record) {
    recorded_.assign(program_.size(), {});
    for (std::size_t i = 0; i < program_.size(); ++i) recorded_[i].instruction = program_[i];
  }
  step.collective_s += tokens_.begin(data_step);
  const Drain drain(stage_);
  step.timed([&] { stage_.begin_step(); });
  const auto action_at = [&](std::size_t i) {
    return ActiveAction(program_[i], message_step, watch.record ? &recorded_[i] : nullptr);
  };
  for (std::size_t i = 0; i < program_.size(); ++i) {
    if (program_[i].overlaps_next) {
      run_pair(action_at(i), action_at(i + 1), step);
      ++i;
    } else {
      run(action_at(i), step);
    }
    progress_.fetch_add(1, std::memory_order_relaxed);
  }
  return finish(step, seconds_since(begin));
}

PlanResult PlanRunner::evaluate(std::int64_t data_step, std::uint64_t message_step) {
  const auto begin = Clock::now();
  Step step{.message_step = message_step};
  std::fill(losses_.begin(), losses_.end(), 0.0);
  step.collective_s += tokens_.begin(data_step);
  for (const Instruction& next : program_) {
    evaluate_one(next, step);
    if (!next.first) channel_.release(into(next, message_step, Direction::forward));
    progress_.fetch_add(1, std::memory_order_relaxed);
  }
  return finish(step, seconds_since(begin));
}

Tensor PlanRunner::receive(const Instruction& next, const MessageKey& key, Step& step) {
  const auto begin = Clock::now();
  const Tensor message = channel_.receive(key);
  add_wait(next, key.direction, seconds_since(begin), step);
  return message;
}

void PlanRunner::add_wait(const Instruction& next, Direction direction, double s, Step& step) {
  waits_[wait_index(direction, next.chunk)] += s;
  if (step.record) step.record->waited_s += s;
}

Tensor PlanRunner::acquire(const MessageKey& key, Step& step) {
  if (!step.record) return channel_.acquire(key);
  const auto begin = Clock::now();
  const Tensor buffer = channel_.acquire(key);
  step.record->waited_s += seconds_since(begin);
  return buffer;
}

void PlanRunner::send(const MessageKey& key, const Tensor& tensor, const Step& step) {
  if (step.tap) step.tap->look(key, tensor);
  if (step.record) step.record->sent_s = seconds_of(Clock::now());
  channel_.send(key, tensor);
}

double PlanRunner::wait_s(Direction direction, int chunk) const {
  const std::size_t at = wait_index(direction, chunk);
  return at < waits_.size() ? waits_[at] : 0;
}

void PlanRunner::evaluate_one(const Instruction& next, Step& step) {
  ActiveAction pass(next, step.message_step, nullptr);
  start(pass, step);
  stages::ForwardResult result;
  step.timed([&] {
    result = stage_.evaluate(next.chunk, pass.input, pass.output, tokens_.ids(next.microbatch),
                             tokens_.targets(next.microbatch));
  });
  if (next.last)
    losses_[static_cast<std::size_t>(next.microbatch)] = result.loss_sum;
  else
    send(*pass.needs.buffer, pass.output, step);
}

/// Starts an action: waits until its message has arrived and its buffer is free.
void PlanRunner::start(ActiveAction& pass, Step& step) {
  const Instruction& next = pass.next;
  step.record = pass.record;
  if (next.op == Op::F && (next.first || next.last)) tokens_.load(next.microbatch);
  if (pass.needs.message) pass.input = receive(next, *pass.needs.message, step);
  if (pass.needs.buffer) pass.output = acquire(*pass.needs.buffer, step);
  pass.nodes = stage_.nodes(next.chunk, pass_of(next.op));
  pass.place = tokens_.place_of(next.microbatch);
  pass.started = true;
}

/// Runs the next node. An output that it completes is sent at once, and a message that it was the
/// last to read is freed at once. The compute thread waits for the stage only for these, and at the
/// last node, whose end is the action's.
void PlanRunner::advance(ActiveAction& pass, Step& step) {
  const stages::NodeEnd end = pass.nodes[static_cast<std::size_t>(pass.node)];
  step.record = pass.record;
  const double waited_s = stage_.collective_wait_s();
  pass.busy_s += step.timed([&] {
    compute(pass);
    ++pass.node;
    if (pass.done() || end.output || end.input || end.output_gradient)
      stage_.wait(pass.next.chunk, pass.next.slot);
  });
  if (step.record) {
    const double waits_s = stage_.collective_wait_s() - waited_s;
    step.record->busy_s -= waits_s;
    step.record->collective_s += waits_s;
  }
  hand_over(pass, end, step);
  if (!pass.done()) return;
  step.longest_s = std::max(step.longest_s, pass.busy_s);
  if (pass.next.op == Op::F && pass.next.last)
    losses_[static_cast<std::size_t>(pass.next.microbatch)] = pass.loss_sum;
}

void PlanRunner::compute(ActiveAction& pass) {
  const Instruction& next = pass.next;
  if (next.op == Op::F) {
    const auto result = stage_.forward_node({.chunk = next.chunk,
                                             .slot = next.slot,
                                             .input = pass.input,
                                             .output = pass.output,
                                             .ids = tokens_.ids(next.microbatch),
                                             .targets = tokens_.targets(next.microbatch),
                                             .place = pass.place},
                                            pass.node);
    pass.loss_sum += result.loss_sum;
    return;
  }
  stage_.backward_node({.pass = pass_of(next.op),
                        .chunk = next.chunk,
                        .slot = next.slot,
                        .deferred = next.deferred,
                        .output_gradient = pass.input,
                        .input_gradient = pass.output},
                       pass.node);
}

void PlanRunner::hand_over(const ActiveAction& pass, const stages::NodeEnd& end, const Step& step) {
  const Instruction& next = pass.next;
  if (end.output && pass.needs.buffer) send(*pass.needs.buffer, pass.output, step);
  if (end.input && !next.first) channel_.release(into(next, step.message_step, Direction::forward));
  if (end.output_gradient && !next.last)
    channel_.release(into(next, step.message_step, Direction::backward));
}

void PlanRunner::run(ActiveAction pass, Step& step) {
  start(pass, step);
  while (!pass.done()) advance(pass, step);
}

/// Runs the nodes of two actions in turn. Each action starts when its message and buffer are there,
/// and goes on when the collectives are done whose results its next node reads, so that one
/// computes while messages and collectives of the other are under way. Brief nodes take no turn:
/// those after a product start the collectives that the other's next product hides.
///
/// Which action goes on depends on when messages arrive, and differs between the shards of a stage.
/// So nothing here may block in a collective of one action while the other could go on: another
/// shard may be doing the reverse.
void PlanRunner::run_pair(ActiveAction forward, ActiveAction backward, Step& step) {
  ActiveAction* turn = &forward;
  ActiveAction* other = &backward;
  for (;;) {
    for (ActiveAction* pass : {turn, other}) {
      if (!pass->started && channel_.ready(pass->needs)) start(*pass, step);
      while (can_advance(*pass) && pass->is_brief()) advance(*pass, step);
    }
    if (forward.done() && backward.done()) break;
    if (can_advance(*turn)) {
      advance(*turn, step);
      std::swap(turn, other);
    } else if (can_advance(*other)) {
      advance(*other, step);
    } else {
      wait_for_pair(forward, backward, step);
    }
  }
  progress_.fetch_add(1, std::memory_order_relaxed);
}

/// The collective that the action's next node waits for; null if there is none.
const tensor::Work* PlanRunner::awaited(const ActiveAction& pass) const {
  return stage_.awaited(pass_of(pass.next.op), pass.next.chunk, pass.next.slot, pass.node);
}

bool PlanRunner::can_advance(const ActiveAction& pass) const {
  return pass.started && !pass.done() && !awaited(pass);
}

/// Waits until an action can start or go on. Neither of the two can now, and at least one is not
/// done.
void PlanRunner::wait_for_pair(ActiveAction& forward, ActiveAction& backward, Step& step) {
  if (forward.done() || backward.done()) {
    ActiveAction& last = forward.done() ? backward : forward;
    return last.started ? advance(last, step) : start(last, step);
  }
  const auto needs_of = [this](const ActiveAction& pass) {
    return pass.started ? transport::Needs{.collective = awaited(pass)} : pass.needs;
  };
  const transport::Needs needs = needs_of(forward);
  const auto begin = Clock::now();
  channel_.wait_for_either(needs, needs_of(backward));
  const double s = seconds_since(begin);
  ActiveAction& first = channel_.ready(needs) ? forward : backward;
  step.record = first.record;
  if (!first.started) return add_wait(first.next, first.direction, s, step);
  step.collective_s += s;
  if (step.record) step.record->collective_s += s;
}

PlanResult PlanRunner::finish(const Step& step, double wall_s) {
  const double within_calls_s = stage_.collective_wait_s();
  PlanResult result{.busy_s = std::max(0.0, step.busy_s - within_calls_s),
                    .collective_s = within_calls_s + step.collective_s,
                    .wall_s = wall_s,
                    .longest_action_s = step.longest_s};
  for (std::size_t m = 0; m < losses_.size(); ++m) {
    result.loss_sum += losses_[m];
    if (!std::isfinite(losses_[m]) && result.bad_microbatch < 0)
      result.bad_microbatch = static_cast<int>(m);
  }
  return result;
}

}  // namespace troupe::actors
