#pragma once

#include <string>
#include <vector>

namespace troupe::launch {

/// A part of a bar.
struct BarPart {
  std::string name;
  double value = 0;
  std::string text;  ///< the value for people
};

/// A bar of parts side by side, as long as `whole`; the n-th part has the n-th fill of patterns.h.
/// Draws nothing for parts of 0.
std::string stacked_bar(const std::string& label, const std::vector<BarPart>& parts, double whole);

/// The square with the n-th fill, for a legend.
std::string swatch(std::size_t n);

}  // namespace troupe::launch
