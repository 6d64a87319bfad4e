#include "actors/worker/runner.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <optional>
#include <utility>

#include "tensor/error.h"

namespace troupe::actors {
namespace {

/// One order, carried out.
class Executor {
 public:
  Executor(RankTrainer& trainer, const std::function<void(RunnerAnswer)>& answer)
      : trainer_(trainer), answer_(answer) {}

  std::optional<RunnerAnswer> operator()(const Halt& order) {
    spdlog::info("halts for epoch {}: {}", order.epoch, order.reason);
    return trainer_.halt(order);
  }
  std::optional<RunnerAnswer> operator()(const BeginEpoch& order) {
    const Epoch& epoch = order.epoch;
    if (trainer_.is_interrupted(epoch.number)) return std::nullopt;
    spdlog::info("epoch {} begins after step {}", epoch.number, order.state.step);
    if (auto ready = trainer_.begin_epoch(order)) return *ready;
    return std::nullopt;
  }
  std::optional<RunnerAnswer> operator()(const RunStep& order) {
    if (!stepped_) {
      // Seconds of the monotonic clock, which all processes of a machine share.
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      spdlog::info("first action at {:.6f}", std::chrono::duration<double>(now).count());
      stepped_ = true;
    }
    return trainer_.run_step(order);
  }
  std::optional<RunnerAnswer> operator()(const Commit& order) {
    trainer_.commit(order);
    return std::nullopt;
  }
  std::optional<RunnerAnswer> operator()(const Save& order) {
    trainer_.save(order, answer_);
    return std::nullopt;
  }
  std::optional<RunnerAnswer> operator()(const Evaluate& order) { return trainer_.evaluate(order); }
  std::optional<RunnerAnswer> operator()(const Finish&) { return std::nullopt; }

 private:
  RankTrainer& trainer_;
  const std::function<void(RunnerAnswer)>& answer_;
  bool stepped_ = false;
};

std::uint32_t epoch_of(const BeginEpoch& order) {
  return order.epoch.number;
}
std::uint32_t epoch_of(const Finish&) {
  return 0;
}
template <typename Order>
std::uint32_t epoch_of(const Order& order) {
  return order.epoch;
}

}  // namespace

Runner::Runner(RankTrainer& trainer, std::uint64_t incarnation)
    : trainer_(trainer), incarnation_(incarnation) {}

void Runner::interrupt(std::uint32_t next, const std::string& reason) {
  trainer_.interrupt(next, reason);
}

void Runner::warm_up(const WarmUp& order, const std::function<void()>& answer) {
  trainer_.warm_up(order, answer);
}

void Runner::run(const std::function<void(RunnerAnswer)>& answer) {
  Executor execute(trainer_, answer);
  bool failed = false;
  while (true) {
    const RunnerOrder order = orders_.pop();
    if (const auto* finish = std::get_if<Finish>(&order)) {
      spdlog::info("ends: {}", finish->reason);
      return;
    }
    if (std::holds_alternative<Halt>(order)) failed = false;
    if (failed) continue;
    try {
      auto result = std::visit(execute, order);
      // Before the vote: who orders the next step knows then how many samples are still wanted.
      for (Tapped& tapped : trainer_.take_tapped()) answer(std::move(tapped));
      if (result) answer(std::move(*result));
      for (TracedActions& actions : trainer_.take_trace()) answer(std::move(actions));
    } catch (const std::exception& e) {
      failed = true;
      const std::uint32_t epoch = std::visit([](const auto& o) { return epoch_of(o); }, order);
      if (trainer_.is_interrupted(epoch)) continue;
      const auto* error = dynamic_cast<const Error*>(&e);
      const ErrorKind kind = error ? error->kind() : ErrorKind::internal;
      spdlog::error("{}", e.what());
      answer(Failed{.epoch = epoch,
                    .incarnation = incarnation_,
                    .kind = static_cast<int>(kind),
                    .message = e.what()});
    }
  }
}

}  // namespace troupe::actors
