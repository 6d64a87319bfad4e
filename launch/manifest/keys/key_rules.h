#pragma once

#include <limits>

#include "launch/manifest/keys/defaults.h"

// Ranges that several keys have.

namespace troupe::launch {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr Rule kNotNegative{.min = 0, .max = kInfinity};
inline constexpr Rule kFinite{.min = 0, .max = kInfinity, .below_max = true};
inline constexpr Rule kPositive{.min = 0, .max = kInfinity, .below_max = true, .above_min = true};
inline constexpr Rule kFraction{.min = 0, .max = 1, .below_max = true};
/// A range from 1 to `max`. The upper ends keep every product of sizes far inside 64 bits.
constexpr Rule from_one_to(double max) {
  return {.min = 1, .max = max};
}

}  // namespace troupe::launch
