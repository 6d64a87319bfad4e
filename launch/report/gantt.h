#pragma once

#include <string>
#include <vector>

#include "launch/report/step_picture.h"

namespace troupe::launch {

/// Draws what ranks did, a row each, over an axis of milliseconds from 0 to `length_s`. Actions
/// that run at the same time lie one above the other.
std::string draw_gantt(const std::string& label, const std::vector<RankRow>& rows, double length_s);

/// A list of the kinds of actions among the rows with their looks.
std::string gantt_legend(const std::vector<RankRow>& rows);

}  // namespace troupe::launch
