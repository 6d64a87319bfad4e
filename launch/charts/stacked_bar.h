#pragma once

#include <string>
#include <vector>

#include "schedules/plan/action.h"

namespace troupe::launch {

/// Fills that differ by lines in addition to their colours, as definitions that a page needs once.
std::string fill_patterns();
/// The fill of a kind of action, as an attribute.
std::string fill_of(schedules::Op op);

/// A part of a bar.
struct BarPart {
  std::string name;
  double value = 0;
  std::string text;  ///< the value for people
};

/// A bar of parts side by side, as long as `whole`; the n-th part has the n-th fill of its own.
/// Draws nothing for parts of 0.
std::string stacked_bar(const std::string& label, const std::vector<BarPart>& parts, double whole);

/// The square with the n-th fill, for a legend.
std::string swatch(std::size_t n);

}  // namespace troupe::launch
