#include "actors/runner.h"

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
  explicit Executor(RankTrainer& trainer) : trainer_(trainer) {}

  std::optional<RunnerAnswer> operator()(const EpochOrder& order) {
    spdlog::info("epoch {} begins", order.begin.epoch.number);
    return trainer_.begin_epoch(order.begin, order.plan);
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
  std::optional<RunnerAnswer> operator()(const Save& order) { return trainer_.save(order); }
  std::optional<RunnerAnswer> operator()(const Evaluate& order) { return trainer_.evaluate(order); }
  std::optional<RunnerAnswer> operator()(const Finish&) { return std::nullopt; }

 private:
  RankTrainer& trainer_;
  bool stepped_ = false;
};

}  // namespace

void run_orders(RankTrainer& trainer, int rank, OrderQueue<RunnerOrder>& orders,
                const std::function<void(RunnerAnswer)>& answer) {
  Executor execute(trainer);
  bool failed = false;
  while (true) {
    const RunnerOrder order = orders.pop();
    if (const auto* finish = std::get_if<Finish>(&order)) {
      spdlog::info("ends: {}", finish->reason);
      return;
    }
    if (failed) continue;
    try {
      if (auto result = std::visit(execute, order)) answer(std::move(*result));
    } catch (const std::exception& e) {
      const auto* error = dynamic_cast<const Error*>(&e);
      const ErrorKind kind = error ? error->kind() : ErrorKind::internal;
      spdlog::error("{}", e.what());
      answer(Failed{.rank = rank, .kind = static_cast<int>(kind), .message = e.what()});
      failed = true;
    }
  }
}

}  // namespace troupe::actors
