#include "actors/worker/order_loop.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <optional>
#include <utility>

#include "tensor/errors/device_error.h"
#include "tensor/errors/shortage.h"

namespace troupe::actors {
namespace {

/// Carries out one order.
class Executor : public StepOrders {
 public:
  Executor(RankExecutor& executor, OrderQueue<StageOrder>& orders,
           const std::function<void(StageAnswer)>& answer)
      : executor_(executor), orders_(orders), answer_(answer) {}

  std::optional<Commit> await_commit() override {
    const auto is_commit = [](const StageOrder& order) {
      return std::holds_alternative<Commit>(order);
    };
    const auto order = orders_.pop_if(is_commit);
    return order ? std::optional(std::get<Commit>(*order)) : std::nullopt;
  }
  void tell(const Copied& answer) override { answer_(answer); }

  std::optional<StageAnswer> operator()(const Halt& order) {
    spdlog::info("halts for configuration {}: {}", order.configuration, order.reason);
    return executor_.halt(order);
  }
  std::optional<StageAnswer> operator()(const EnterConfiguration& order) {
    const Configuration& configuration = order.configuration;
    if (executor_.is_interrupted(configuration.number)) return std::nullopt;
    spdlog::info("configuration {} begins after step {}", configuration.number,
                 order.start.state.step);
    if (auto ready = executor_.begin_configuration(order)) return *ready;
    return std::nullopt;
  }
  std::optional<StageAnswer> operator()(const RunStep& order) {
    if (!stepped_) {
      // Seconds of the monotonic clock, which all processes of a machine share.
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      spdlog::info("first action at {:.6f}", std::chrono::duration<double>(now).count());
      stepped_ = true;
    }
    return executor_.run_step(order, *this);
  }
  std::optional<StageAnswer> operator()(const Commit& order) {
    executor_.commit(order);
    return std::nullopt;
  }
  std::optional<StageAnswer> operator()(const Save& order) {
    executor_.save(order, answer_);
    return std::nullopt;
  }
  std::optional<StageAnswer> operator()(const Evaluate& order) { return executor_.evaluate(order); }
  std::optional<StageAnswer> operator()(const Finish&) { return std::nullopt; }

 private:
  RankExecutor& executor_;
  OrderQueue<StageOrder>& orders_;
  const std::function<void(StageAnswer)>& answer_;
  bool stepped_ = false;
};

std::uint32_t configuration_of(const EnterConfiguration& order) {
  return order.configuration.number;
}
std::uint32_t configuration_of(const Finish&) {
  return 0;
}
template <typename Order>
std::uint32_t configuration_of(const Order& order) {
  return order.configuration;
}

/// The error to report. Where the machine had too little of something, the worker goes on once it
/// has halted: only an update that was interrupted leaves state that counts for nothing.
Error error_of(const std::exception& exception, bool is_updating) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) return *error;
  const auto lacks = as_shortage(exception);
  if (!lacks) return {ErrorKind::internal, exception.what()};
  return is_updating ? Error(ErrorKind::internal, lacks->what()) : *lacks;
}

}  // namespace

OrderLoop::OrderLoop(RankExecutor& executor, std::uint64_t incarnation)
    : executor_(executor), incarnation_(incarnation) {}

Heartbeat OrderLoop::activity() const {
  executor_.watch_groups();
  Heartbeat beat = executor_.activity();
  beat.mailbox_depth = orders_.size();
  return beat;
}

void OrderLoop::run(const std::function<void(StageAnswer)>& answer) {
  Executor execute(executor_, orders_, answer);
  bool failed = false;
  while (true) {
    const StageOrder order = orders_.pop();
    if (const auto* finish = std::get_if<Finish>(&order)) {
      spdlog::info("ends: {}", finish->reason);
      return;
    }
    if (std::holds_alternative<Halt>(order)) failed = false;
    if (failed) {
      if (const auto* commit = std::get_if<Commit>(&order)) executor_.learn(*commit);
      continue;
    }
    try {
      auto result = std::visit(execute, order);
      // Summaries precede the vote, so that the director knows how many samples are left when it
      // orders the next step, and has all histograms of a step that it commits.
      RankExecutor::Seen seen = executor_.take_seen();
      for (Tapped& tapped : seen.tapped) answer(std::move(tapped));
      for (ParameterHistograms& histograms : seen.histograms) answer(std::move(histograms));
      if (result) answer(std::move(*result));
      for (TracedActions& actions : seen.actions) answer(std::move(actions));
    } catch (const std::exception& e) {
      failed = true;
      const std::uint32_t configuration =
          std::visit([](const auto& o) { return configuration_of(o); }, order);
      if (executor_.is_interrupted(configuration)) continue;
      const Error error = error_of(e, executor_.is_updating());
      spdlog::error("{}", error.what());
      answer(Failed{.configuration = configuration,
                    .incarnation = incarnation_,
                    .kind = static_cast<int>(error.kind()),
                    .message = error.what(),
                    .of_gpu = dynamic_cast<const DeviceError*>(&e) != nullptr});
    }
  }
}

}  // namespace troupe::actors
