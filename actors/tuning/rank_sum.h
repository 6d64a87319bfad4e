#pragma once

#include <vector>

namespace troupe::actors {

/// The probability that the values of `lower` lie as far below those of `higher` as they do, or
/// farther, if both came from one distribution, whatever that is: the rank sum test (Wilcoxon 1945;
/// Mann and Whitney 1947), one-sided, by its normal approximation with corrections for ties and
/// continuity. Some slow steps of another cause hardly move it. 1 where either is empty.
double chance_of_lower(const std::vector<double>& lower, const std::vector<double>& higher);

}  // namespace troupe::actors
