#pragma once

#include <string>
#include <vector>

#include "actors/topology/reports/reports.h"

namespace troupe::launch {

/// The rows of the busiest expert of any layer, in multiples of what all would have if loads were
/// even; NaN without experts.
double busiest_expert(const std::vector<actors::StepReport::Router>& routers);
/// How the routers of a step spread tokens over experts, a row for each layer, under a heading.
/// Empty without experts.
std::string router_table(const std::vector<actors::StepReport::Router>& routers);

}  // namespace troupe::launch
