#pragma once

#include "actors/worker/rank_executor.h"

namespace troupe::actors {

/// What a rank's step does between its actions: it waits until the step before is committed, if its
/// update was made ahead of that, and lets copies of that step's state go and come.
class RankExecutor::AheadGate : public StepGate {
 public:
  /// All references outlive the gate.
  AheadGate(RankExecutor& executor, const RunStep& order, StepOrders& orders)
      : executor_(executor), order_(order), orders_(orders) {}

  bool weights_stand() override;
  void after_action() override;
  /// Waits for the copy, after the last action.
  void finish();

 private:
  RankExecutor& executor_;
  const RunStep& order_;
  StepOrders& orders_;
  bool has_told_ = false;
};

}  // namespace troupe::actors
