#pragma once

#include <string>
#include <vector>

#include "launch/charts/axis.h"
#include "launch/charts/curve.h"

namespace troupe::launch {

/// A line, or points that are too few for one.
struct Series {
  enum class Shape { line, points };
  std::string name;
  std::string look;  ///< its classes in style.css
  std::vector<Point> points;
  Shape shape = Shape::line;
};

/// What is shown when one points at a span of x.
struct Hint {
  double from = 0;
  double to = 0;
  std::string text;
};

struct LineChart {
  std::string label;   ///< what it shows, for those who do not see it
  std::string x_name;  ///< written at the end of the axis
  double height = 200;
  Axis x;
  Scale scale = Scale::linear;  ///< of the y axis; values of 0 and below have no place on the other
  bool from_zero = false;       ///< the y axis has 0; only if it is linear
  std::vector<Series> series = {};  ///< later ones lie over earlier ones
  std::vector<Hint> hints = {};
};

/// Draws every finite point, however many there are; the y axis follows from them. Empty if there
/// are none.
std::string draw(const LineChart& chart);

/// A list of the series with a piece of each line.
std::string legend(const std::vector<Series>& series);

}  // namespace troupe::launch
