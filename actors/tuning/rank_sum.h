#pragma once

#include <vector>

namespace troupe::actors {

/// The p-value of the one-sided rank sum test (Wilcoxon 1945; Mann and Whitney 1947): the
/// probability that the values of `lower` are at least this far below those of `higher` if both
/// come from the same distribution, whatever that is. Computed by the normal approximation with
/// corrections for ties and continuity. A few slow steps of another cause hardly change it. It is 1
/// if either list is empty.
double chance_of_lower(const std::vector<double>& lower, const std::vector<double>& higher);

}  // namespace troupe::actors
