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

/// At each point the value of the line that fits the values before and after it best, in which a
/// value counts half as much for every `half_life` points of distance (local linear regression:
/// Cleveland, Robust Locally Weighted Regression and Smoothing Scatterplots, JASA 1979). Unlike a
/// mean it neither lags behind nor, at the ends, leans towards the middle; it stays within the
/// range of the values. The points must be finite and at equal distances.
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
