#pragma once

#include <vector>

#include "schedules/plan/plan.h"

namespace troupe::schedules {

/// How many actions a rank may run of a step before it knows that the weights which they read
/// stand: the forwards with which its order begins, but for its last one. They change nothing that
/// the step before needs to be updated otherwise. As each rank keeps a forward back, no rank can
/// have completed the step while another has not heard that the one before stands.
int actions_ahead(const Plan& plan, int rank);

/// The places in a rank's order of the forwards that it does not run ahead, but whose inputs
/// another rank sends ahead.
std::vector<int> inputs_ahead(const Plan& plan, int rank);

}  // namespace troupe::schedules
