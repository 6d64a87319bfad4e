#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>

#include "actors/messages/messages.h"
#include "actors/messages/order_queue.h"
#include "actors/worker/rank_trainer.h"

namespace troupe::actors {

using RunnerOrder = std::variant<Halt, BeginEpoch, RunStep, Commit, Save, Evaluate, Finish>;
using RunnerAnswer =
    std::variant<Halted, Ready, Prepared, TracedActions, Tapped, Saved, Evaluated, Failed>;

/// The computing side of a worker, as its stage actor sees it. From any thread; nothing here waits.
class StageRunner {
 public:
  virtual ~StageRunner() = default;
  /// Queues an order. Orders are carried out one at a time; the answer goes to the stage actor.
  virtual void push(RunnerOrder order) = 0;
  /// Orders that are queued.
  virtual std::size_t depth() const = 0;
  /// RankTrainer's.
  virtual void interrupt(std::uint32_t next, const std::string& reason) = 0;
  virtual void warm_up(const WarmUp& order, const std::function<void()>& answer) = 0;
  virtual RankTrainer::Activity activity() const = 0;
};

/// A rank's computing loop. Knows no actor.
class Runner : public StageRunner {
 public:
  /// `trainer` outlives it.
  Runner(RankTrainer& trainer, std::uint64_t incarnation);
  /// Takes orders until Finish and answers each, on the thread that calls it; `answer` may be
  /// called from another one too. After an error it answers Failed once, unless it was interrupted,
  /// and then waits for Halt or Finish.
  void run(const std::function<void(RunnerAnswer)>& answer);

  void push(RunnerOrder order) override { orders_.push(std::move(order)); }
  std::size_t depth() const override { return orders_.size(); }
  void interrupt(std::uint32_t next, const std::string& reason) override;
  void warm_up(const WarmUp& order, const std::function<void()>& answer) override;
  RankTrainer::Activity activity() const override { return trainer_.activity(); }

 private:
  RankTrainer& trainer_;
  const std::uint64_t incarnation_;
  OrderQueue<RunnerOrder> orders_;
};

}  // namespace troupe::actors
