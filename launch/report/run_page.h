#pragma once

#include <string>
#include <vector>

#include "launch/report/run_report.h"

namespace troupe::launch {

/// The report of a run as an HTML file. `now` is when it is made, in Unix seconds.
std::string run_page(const RunReport& run, double now);

/// The report of several runs: their curves in one picture, and what differs.
std::string comparison_page(const std::vector<RunReport>& runs, double now);

/// Names that tell runs apart: their own, or their directories if some have the same.
std::vector<std::string> names_of(const std::vector<RunReport>& runs);

}  // namespace troupe::launch
