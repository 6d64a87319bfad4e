#pragma once

#include <functional>
#include <variant>

#include "actors/messages.h"
#include "actors/order_queue.h"
#include "actors/rank_trainer.h"

namespace troupe::actors {

/// An epoch's start as the runner needs it: both messages are in.
struct EpochOrder {
  BeginEpoch begin;
  PlanOrder plan;
};

using RunnerOrder = std::variant<Halt, EpochOrder, RunStep, Commit, Save, Evaluate, Finish>;
using RunnerAnswer =
    std::variant<Halted, Ready, Prepared, TracedActions, Tapped, Saved, Evaluated, Failed>;

/// `answer` may be called from another thread too. The worker's computing loop: takes orders until
/// Finish, one at a time, and answers each. After an error it answers Failed once, unless it was
/// interrupted, and then waits for Halt or Finish. Runs on the thread that calls it; knows no
/// actor.
void run_orders(RankTrainer& trainer, std::uint64_t incarnation, OrderQueue<RunnerOrder>& orders,
                const std::function<void(RunnerAnswer)>& answer);

}  // namespace troupe::actors
