#pragma once

#include "launch/commands/options.h"

namespace troupe::launch {

/// `plan --machine`: predicts a run, searches its layout, or predicts inference. Returns the exit
/// code.
int plan_on_machine(const PlanOptions& options);

}  // namespace troupe::launch
