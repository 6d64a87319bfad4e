#pragma once

#include <cstddef>
#include <vector>

namespace troupe::launch {

struct Point {
  double x = 0;
  double y = 0;
  bool operator==(const Point&) const = default;
};

/// The points whose value is finite.
std::vector<Point> finite(std::vector<Point> points);

/// The mean of the values before and after each point, in which a value counts half as much for
/// every `half_life` points of distance. Unlike a mean of earlier values alone, it does not lag
/// behind. The points must be finite.
std::vector<Point> smoothed(const std::vector<Point>& points, double half_life);

/// At most 4 * columns of the points, whose line fills the same pixels as that of all of them if a
/// picture has that many columns: the first, the lowest, the highest and the last of each column
/// (M4: Jugel et al., A Visualization-Oriented Time Series Data Aggregation, VLDB 2014). The
/// points must ascend in x.
std::vector<Point> thinned(const std::vector<Point>& points, std::size_t columns);

/// Values and their moving average.
struct Curve {
  std::vector<Point> raw;
  std::vector<Point> smooth;
};

/// The curve of finite points, smoothed with a half life that suits their number.
Curve smooth_curve(std::vector<Point> points);

}  // namespace troupe::launch
