#include "actors/plan_runner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "actors/monitors/tap.h"

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

/// What a chunk receives: its activation, or the gradient of its output.
MessageKey into(const Instruction& next, std::uint64_t step, Direction direction) {
  return {step, next.microbatch, next.global_chunk, direction};
}
/// What a chunk sends: its output to the chunk after, or the gradient of its input to the chunk
/// before.
MessageKey out_of(const Instruction& next, std::uint64_t step, Direction direction) {
  const int to = next.global_chunk + (direction == Direction::forward ? 1 : -1);
  return {step, next.microbatch, to, direction};
}

std::size_t wait_index(Direction direction, int chunk) {
  return 2 * static_cast<std::size_t>(chunk) + static_cast<std::size_t>(direction);
}

}  // namespace

struct PlanRunner::Step {
  std::int64_t data_step = 0;
  std::uint64_t message_step = 0;
  bool training = true;
  double busy_s = 0;
  double longest_s = 0;
  Tap* tap = nullptr;
  Recorded* record = nullptr;  ///< of the action in progress; null: none is kept

  /// Runs and times one call into the stage.
  template <typename Call>
  auto timed(Call&& call) {
    const auto begin = Clock::now();
    struct Account {
      Step& step;
      Clock::time_point begin;
      ~Account() {
        const auto end = Clock::now();
        const double s = std::chrono::duration<double>(end - begin).count();
        step.busy_s += s;
        step.longest_s = std::max(step.longest_s, s);
        if (!step.record) return;
        step.record->begin_s = seconds_of(begin);
        step.record->end_s = seconds_of(end);
      }
    } account{*this, begin};
    return call();
  }
};

PlanRunner::PlanRunner(stages::Stage& stage, transport::Channel& channel, Program program,
                       const Data& data)
    : stage_(stage),
      channel_(channel),
      program_(std::move(program)),
      data_(data),
      ids_(static_cast<std::size_t>(data.tokens)),
      targets_(static_cast<std::size_t>(data.tokens)),
      losses_(static_cast<std::size_t>(data.num_microbatches)) {
  for (const Instruction& next : program_)
    waits_.resize(std::max(waits_.size(), wait_index(Direction::backward, next.chunk) + 1));
}

PlanResult PlanRunner::train(std::int64_t data_step, std::uint64_t message_step,
                             const Watch& watch) {
  const auto begin = Clock::now();
  Step step{.data_step = data_step, .message_step = message_step, .tap = watch.tap};
  std::fill(losses_.begin(), losses_.end(), 0.0);
  std::fill(waits_.begin(), waits_.end(), 0.0);
  if (watch.record) recorded_.assign(program_.size(), {});
  step.timed([&] { stage_.begin_step(); });
  for (std::size_t i = 0; i < program_.size(); ++i) {
    const Instruction& next = program_[i];
    if (watch.record) {
      step.record = &recorded_[i];
      step.record->instruction = next;
    }
    switch (next.op) {
      case Op::F:
        forward(next, step);
        break;
      case Op::B:
      case Op::I:
        backward(next, step);
        break;
      case Op::W:
        backward_weight(next, step);
        break;
    }
    progress_.fetch_add(1, std::memory_order_relaxed);
  }
  return finish(step, seconds_since(begin));
}

PlanResult PlanRunner::evaluate(std::int64_t data_step, std::uint64_t message_step) {
  const auto begin = Clock::now();
  Step step{.data_step = data_step, .message_step = message_step, .training = false};
  std::fill(losses_.begin(), losses_.end(), 0.0);
  for (const Instruction& next : program_) {
    forward(next, step);
    if (!next.first) channel_.release(into(next, message_step, Direction::forward));
    progress_.fetch_add(1, std::memory_order_relaxed);
  }
  return finish(step, seconds_since(begin));
}

Tensor PlanRunner::receive(const Instruction& next, Direction direction, Step& step) {
  const auto begin = Clock::now();
  const Tensor message = channel_.receive(into(next, step.message_step, direction));
  const double s = seconds_since(begin);
  waits_[wait_index(direction, next.chunk)] += s;
  if (step.record) step.record->waited_s += s;
  return message;
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
  channel_.send(key, tensor);
}

double PlanRunner::wait_s(Direction direction, int chunk) const {
  const std::size_t at = wait_index(direction, chunk);
  return at < waits_.size() ? waits_[at] : 0;
}

void PlanRunner::forward(const Instruction& next, Step& step) {
  if (next.first || next.last) load_tokens(next, step);
  const Tensor input = next.first ? Tensor{} : receive(next, Direction::forward, step);
  const MessageKey sent = out_of(next, step.message_step, Direction::forward);
  const Tensor output = next.last ? Tensor{} : acquire(sent, step);
  const auto result = step.timed([&] {
    return step.training ? stage_.forward(next.chunk, next.slot, input, output, ids_, targets_)
                         : stage_.evaluate(next.chunk, input, output, ids_, targets_);
  });
  if (next.last)
    losses_[static_cast<std::size_t>(next.microbatch)] = result.loss_sum;
  else
    send(sent, output, step);
}

void PlanRunner::backward(const Instruction& next, Step& step) {
  const Tensor received = next.last ? Tensor{} : receive(next, Direction::backward, step);
  const MessageKey sent = out_of(next, step.message_step, Direction::backward);
  const Tensor output = next.first ? Tensor{} : acquire(sent, step);
  step.timed([&] {
    if (next.op == Op::B)
      stage_.backward(next.chunk, next.slot, received, output);
    else
      stage_.backward_input(next.chunk, next.slot, next.deferred, received, output);
  });
  if (!next.first) send(sent, output, step);
  if (next.op == Op::B) release(next, step);
}

void PlanRunner::backward_weight(const Instruction& next, Step& step) {
  step.timed([&] { stage_.backward_weight(next.chunk, next.slot, next.deferred); });
  release(next, step);
}

/// The microbatch is done with: frees the slots of its activation and its gradient.
void PlanRunner::release(const Instruction& next, const Step& step) {
  if (!next.first) channel_.release(into(next, step.message_step, Direction::forward));
  if (!next.last) channel_.release(into(next, step.message_step, Direction::backward));
}

void PlanRunner::load_tokens(const Instruction& next, const Step& step) {
  data_.feed->microbatch(step.data_step, data_.replica, next.microbatch, ids_, targets_);
}

PlanResult PlanRunner::finish(const Step& step, double wall_s) {
  PlanResult result{.busy_s = step.busy_s, .wall_s = wall_s, .longest_action_s = step.longest_s};
  for (std::size_t m = 0; m < losses_.size(); ++m) {
    result.loss_sum += losses_[m];
    if (!std::isfinite(losses_[m]) && result.bad_microbatch < 0)
      result.bad_microbatch = static_cast<int>(m);
  }
  return result;
}

}  // namespace troupe::actors
