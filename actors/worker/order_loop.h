#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>

#include "actors/messages/messages.h"
#include "actors/messages/order_queue.h"
#include "actors/worker/rank_executor.h"

namespace troupe::actors {

using StageOrder = std::variant<Halt, EnterConfiguration, RunStep, Commit, Save, Evaluate, Finish>;
using StageAnswer = std::variant<Halted, Ready, Copied, Prepared, TracedActions, Tapped,
                                 ParameterHistograms, Saved, Evaluated, Failed>;

/// The computing side of a worker, as its stage actor sees it. Functions may be called from any
/// thread and never wait.
class OrderSink {
 public:
  virtual ~OrderSink() = default;
  /// Queues an order. Orders are carried out one at a time; the answer goes to the stage actor.
  virtual void push(StageOrder order) = 0;
  /// Calls RankExecutor::interrupt.
  virtual void interrupt(std::uint32_t next, const std::string& reason) = 0;
  virtual void warm_up(const WarmUp& order, const std::function<void()>& answer) = 0;
  /// What the worker does; orders that wait count as messages in its mailbox.
  virtual Heartbeat activity() const = 0;
};

/// The loop of a rank's compute thread: takes orders from the queue and carries them out. Knows no
/// actor.
class OrderLoop : public OrderSink {
 public:
  /// `executor` outlives the loop.
  OrderLoop(RankExecutor& executor, std::uint64_t incarnation);
  /// Takes orders until Finish and carries them out on the calling thread. `answer` may be called
  /// from other threads too. After an error it answers Failed once, unless it was interrupted, and
  /// then skips all orders until Halt or Finish.
  void run(const std::function<void(StageAnswer)>& answer);

  void push(StageOrder order) override { orders_.push(std::move(order)); }
  void interrupt(std::uint32_t next, const std::string& reason) override {
    executor_.interrupt(next, reason);
  }
  void warm_up(const WarmUp& order, const std::function<void()>& answer) override {
    executor_.warm_up(order, answer);
  }
  Heartbeat activity() const override;

 private:
  RankExecutor& executor_;
  const std::uint64_t incarnation_;
  OrderQueue<StageOrder> orders_;
};

}  // namespace troupe::actors
