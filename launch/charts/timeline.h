#pragma once

#include <string>
#include <vector>

#include "launch/charts/axis.h"

namespace troupe::launch {

/// Something at one x.
struct Mark {
  double x = 0;
  std::string text;
};
/// Something from one x to another.
struct Span {
  double from = 0;
  double to = 0;
  std::string text;
};
/// A row of a timeline.
struct Strip {
  enum class Look { cross, triangle, tick };
  std::string name;
  Look look = Look::tick;
  std::vector<Mark> marks = {};
  std::vector<Span> spans = {};
};

/// Draws a row for each strip over an axis that a chart above it may have, too. Marks that would
/// lie on top of each other are drawn once, with the texts of all.
std::string draw_timeline(const std::string& label, const Axis& x,
                          const std::vector<Strip>& strips);

}  // namespace troupe::launch
