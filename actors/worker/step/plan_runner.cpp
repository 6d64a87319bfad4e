#include "actors/worker/step/plan_runner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "actors/topology/state/unit_order.h"
#include "actors/worker/step/active_action.h"
#include "actors/worker/step/tap.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

using Clock = std::chrono::steady_clock;
using schedules::Op;
using tensor::Tensor;
using transport::Direction;
using transport::MessageKey;

std::size_t wait_index(Direction direction, int chunk) {
  return 2 * static_cast<std::size_t>(chunk) + static_cast<std::size_t>(direction);
}

}  // namespace

/// Waits at its end until the device has run all it was given and told so, after which nothing uses
/// the channel's buffers any more. If the step was finished, gradients are complete; else none has
/// changed to which no backward has added.
struct PlanRunner::Drain {
  explicit Drain(PlanRunner& of) : runner(&of) {}
  ~Drain() {
    try {
      if (runner) drop();
    } catch (const Error&) {
      // The device has failed, which ends the step, or its next call tells it.
    }
  }
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;
  void finish() {
    runner->stage_.synchronize();
    settle();
  }
  void drop() {
    runner->stage_.drop_step();
    settle();
  }
  void settle() {
    PlanRunner& of = *std::exchange(runner, nullptr);
    of.channel_.settle();
    for (std::uint64_t done = 0; (done = of.progress_.load()) != of.queued_;)
      of.progress_.wait(done);
  }
  PlanRunner* runner;  ///< null once finished
};

PlanRunner::PlanRunner(stages::Stage& stage, transport::Channel& channel, tensor::Device& device,
                       Program program, const StepTokens::Source& tokens,
                       stages::DataParallel* data_parallel)
    : stage_(stage),
      channel_(channel),
      program_(std::move(program)),
      tokens_(tokens, device),
      lanes_(tokens, tokens_),
      data_parallel_(data_parallel),
      units_(unit_order(program_, stage)),
      losses_(tokens, device),
      clock_(device),
      edge_shape_(stage.edge_shape()) {
  action_s_.resize(program_.size());
  sent_after_.resize(program_.size());
  for (const Instruction& next : program_)
    waits_.resize(std::max(waits_.size(), wait_index(Direction::backward, next.chunk) + 1));
}

PlanResult PlanRunner::train(std::int64_t data_step, std::uint64_t message_step,
                             const Watch& watch) {
  const auto begin = Clock::now();
  Step step{.message_step = message_step, .watch = watch};
  losses_.begin();
  std::fill(waits_.begin(), waits_.end(), 0.0);
  if (watch.record) {
    recorded_.assign(program_.size(), {});
    for (std::size_t i = 0; i < program_.size(); ++i) recorded_[i].instruction = program_[i];
  }
  step.collective_s += tokens_.begin(data_step);
  Drain drain(*this);
  std::ranges::fill(sent_after_, kNotSent);
  clock_.clear();
  tensor::Stream& packing = stage_.stream_of(stages::Pass::backward);
  clock_.begin(ActionClock::kNoAction, packing);
  if (data_parallel_) data_parallel_->expect(units_);
  stage_.begin_step();
  clock_.end(packing);
  const auto action_at = [&](std::size_t i) {
    return ActiveAction(program_, i, message_step, watch.record ? &recorded_[i].times : nullptr);
  };
  bool stands = !watch.gate;
  for (std::size_t i = 0; i < program_.size(); ++i) {
    if (!stands && !program_[i].ahead) {
      if (!watch.gate->weights_stand()) return give_up(step, drain);
      stands = true;
    }
    if (program_[i].overlaps_next) {
      run_pair(action_at(i), action_at(i + 1), step);
      ++i;
    } else {
      run(action_at(i), step);
    }
    if (watch.gate && stands) watch.gate->after_action();
  }
  drain.finish();
  read_times(step);
  return finish(step, seconds_since(begin));
}

/// Waits for what was queued of a step, frees what its forwards have kept for backwards, and takes
/// what others have sent ahead of it, or will, which is for actions that do not run. Messages are
/// taken in the plan's order, and none is kept as long as there, so nobody waits for ever.
PlanResult PlanRunner::give_up(const Step& step, Drain& drain) {
  drain.drop();
  for (const Instruction& next : program_) {
    const MessageKey key = into(next, step.message_step, Direction::forward);
    const auto nodes = stage_.nodes(next.chunk, stages::Pass::forward);
    const bool is_kept =
        next.ahead && !next.first && std::ranges::none_of(nodes, &stages::NodeEffects::input);
    if (next.input_ahead) channel_.receive(key);
    if (next.input_ahead || is_kept) channel_.release(key);
  }
  return {.given_up = true};
}

PlanResult PlanRunner::evaluate(std::int64_t data_step, std::uint64_t message_step) {
  const auto begin = Clock::now();
  Step step{.message_step = message_step};
  losses_.begin();
  if (data_parallel_) data_parallel_->expect(units_);
  step.collective_s += tokens_.begin(data_step);
  for (std::size_t i = 0; i < program_.size(); ++i) {
    evaluate_one(i, step);
    ++queued_;
    progress_.fetch_add(1, std::memory_order_relaxed);
  }
  return finish(step, seconds_since(begin));
}

Tensor PlanRunner::receive(const Instruction& next, const MessageKey& key, Step& step) {
  const auto begin = Clock::now();
  const Tensor message = shaped(channel_.receive(key));
  add_wait(next, key.direction, seconds_since(begin), step);
  lanes_.gather(stage_.stream_of(pass_of(next.op)), message, next.microbatch);
  return message;
}

void PlanRunner::add_wait(const Instruction& next, Direction direction, double s, Step& step) {
  waits_[wait_index(direction, next.chunk)] += s;
  if (step.record) step.record->waited_s += s;
}

/// A tensor of the channel as the stage has it: one in pieces is a row of elements there.
Tensor PlanRunner::shaped(const Tensor& message) const {
  return {message.data, message.dtype, edge_shape_};
}

Tensor PlanRunner::acquire(const MessageKey& key, Step& step) {
  if (!step.record) return shaped(channel_.acquire(key));
  const auto begin = Clock::now();
  const Tensor buffer = shaped(channel_.acquire(key));
  step.record->waited_s += seconds_since(begin);
  return buffer;
}

double PlanRunner::wait_s(Direction direction, int chunk) const {
  const std::size_t at = wait_index(direction, chunk);
  return at < waits_.size() ? waits_[at] : 0;
}

void PlanRunner::evaluate_one(std::size_t instruction, Step& step) {
  const Instruction& next = program_[instruction];
  ActiveAction pass(program_, instruction, step.message_step, nullptr);
  start(pass, step);
  const auto begin = Clock::now();
  const double loss =
      stage_.evaluate(next.chunk, pass.input, pass.output, tokens_.ids(next.microbatch),
                      tokens_.targets(next.microbatch), tokens_.documents(next.microbatch));
  step.busy_s += seconds_since(begin);
  if (next.last)
    losses_.set(next.microbatch, loss);
  else
    send_evaluated(pass);
  if (!next.first) channel_.release(into(next, step.message_step, Direction::forward));
}

void PlanRunner::send_evaluated(const ActiveAction& pass) {
  if (lanes_.are_apart()) {
    tensor::Stream& stream = stage_.stream_of(stages::Pass::forward);
    lanes_.spread(stream, pass.output, pass.next.microbatch);
    stream.synchronize();
  }
  channel_.send(*pass.needs.buffer, pass.output);
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

/// Queues the next node. An output that it completes is sent, and a message that it was the last to
/// read is freed, as soon as the device has run it.
void PlanRunner::advance(ActiveAction& pass, Step& step) {
  const stages::NodeEffects end = pass.nodes[static_cast<std::size_t>(pass.node)];
  tensor::Stream& stream = stage_.stream_of(pass_of(pass.next.op));
  if (!std::exchange(pass.is_in_piece, true)) {
    // The piece begins when the node can, not when the stream has nothing else to do.
    stage_.ran(pass.next.chunk, pass.next.slot).wait(stream);
    clock_.begin(pass.number, stream);
    pass.waited_s = stage_.collective_wait_s();
  }
  compute(pass);
  ++pass.node;
  if (pass.is_paired || end.output || pass.done()) {
    const std::size_t piece = clock_.end(stream, stage_.collective_wait_s() - pass.waited_s);
    if (end.output && pass.needs.buffer) sent_after_[pass.number] = piece;
    pass.is_in_piece = false;
  }
  hand_over(pass, end, step);
  if (pass.done()) count_finished(pass);
  if (data_parallel_) tell_of_gradients(pass, end);
}

void PlanRunner::tell_of_gradients(const ActiveAction& pass, const stages::NodeEffects& end) {
  using stages::Microbatch;
  const Instruction& next = pass.next;
  if (!end.gradients.empty())
    data_parallel_->added(end, next.last_gradients ? Microbatch::last : Microbatch::earlier,
                          stage_.ran(next.chunk, next.slot));
  data_parallel_->progress();
}

void PlanRunner::compute(ActiveAction& pass) {
  const Instruction& next = pass.next;
  if (next.op == Op::F) {
    const std::span targets = tokens_.targets(next.microbatch);
    return stage_.forward_node(
        {.chunk = next.chunk,
         .slot = next.slot,
         .input = pass.input,
         .output = pass.output,
         .ids = tokens_.ids(next.microbatch),
         .targets = targets,
         .place = pass.place,
         .documents = tokens_.documents(next.microbatch),
         .step_targets = tokens_.num_targets(),
         .loss = losses_.of_microbatch(next.microbatch),
         .token_losses =
             next.last ? losses_.of_rows(next.microbatch, std::ssize(targets)) : Tensor{}},
        pass.node);
  }
  stage_.backward_node({.pass = pass_of(next.op),
                        .chunk = next.chunk,
                        .slot = next.slot,
                        .deferred = next.deferred,
                        .output_gradient = pass.input,
                        .input_gradient = pass.output},
                       pass.node);
}

void PlanRunner::hand_over(const ActiveAction& pass, const stages::NodeEffects& end,
                           const Step& step) {
  const Instruction& next = pass.next;
  tensor::Event& ran = stage_.ran(next.chunk, next.slot);
  if (end.output && pass.needs.buffer) {
    if (step.watch.tap) {
      ran.synchronize();
      step.watch.tap->look(*pass.needs.buffer, tokens_.used_part(pass.output, next.microbatch));
    }
    if (lanes_.are_apart()) {
      tensor::Stream& stream = stage_.stream_of(pass_of(next.op));
      lanes_.spread(stream, pass.output, next.microbatch);
      ran.record(stream);
    }
    channel_.send(*pass.needs.buffer, pass.output, ran);
  }
  if (end.input && !next.first)
    channel_.release(into(next, step.message_step, Direction::forward), ran);
  if (end.output_gradient && !next.last)
    channel_.release(into(next, step.message_step, Direction::backward), ran);
}

/// Lets the device count an action whose last node is queued.
void PlanRunner::count_finished(const ActiveAction& pass) {
  const auto count = [](void* runner) {
    auto& progress = static_cast<PlanRunner*>(runner)->progress_;
    progress.fetch_add(1);
    progress.notify_all();
  };
  ++queued_;
  stage_.ran(pass.next.chunk, pass.next.slot).on_reached(count, this);
}

void PlanRunner::run(ActiveAction pass, Step& step) {
  start(pass, step);
  while (!pass.done()) advance(pass, step);
}

/// Reads when the pieces of the step's actions ran. Called when they all have.
void PlanRunner::read_times(Step& step) {
  std::ranges::fill(action_s_, 0.0);
  const auto& pieces = clock_.read();
  for (const ActionClock::Piece& piece : pieces) {
    if (piece.action == ActionClock::kNoAction) continue;
    double& action_s = action_s_[piece.action];
    action_s += piece.seconds();
    step.longest_s = std::max(step.longest_s, action_s);
    if (!step.watch.record) continue;
    ActionsTraced::Action& record = recorded_[piece.action].times;
    if (record.end_s == 0) {
      record.queued_s = piece.queued_s;
      record.begin_s = piece.begin_s;
    }
    record.end_s = piece.end_s;
    record.busy_s += piece.seconds() - piece.waited_s;
    record.collective_s += piece.waited_s;
  }
  for (std::size_t i = 0; step.watch.record && i < recorded_.size(); ++i)
    if (sent_after_[i] != kNotSent) recorded_[i].times.sent_s = pieces[sent_after_[i]].end_s;
  step.busy_s = clock_.busy_s();
}

PlanResult PlanRunner::finish(const Step& step, double wall_s) {
  const double within_calls_s = stage_.collective_wait_s();
  const StepLosses::Total losses = losses_.add_up(tokens_);
  return {.loss_sum = losses.sum,
          .targets = tokens_.num_targets(),
          .sources = losses.sources,
          .bad_microbatch = losses.bad_microbatch,
          .busy_s = step.busy_s,
          .collective_s = within_calls_s + step.collective_s,
          .wall_s = wall_s,
          .longest_action_s = step.longest_s};
}

}  // namespace troupe::actors
