#include "launch/charts/curve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace troupe::launch {

std::vector<Point> finite(std::vector<Point> points) {
  std::erase_if(points, [](const Point& p) { return !std::isfinite(p.y); });
  return points;
}

std::vector<Point> smoothed(const std::vector<Point>& points, double half_life) {
  const double keep = std::exp2(-1 / half_life);
  struct Sum {
    double values = 0, weights = 0;
    void add(double value, double keep) {
      values = keep * values + value;
      weights = keep * weights + 1;
    }
  };
  std::vector<Sum> before(points.size());  // each with the point itself
  Sum sum;
  for (std::size_t i = 0; i < points.size(); ++i) {
    sum.add(points[i].y, keep);
    before[i] = sum;
  }
  std::vector<Point> out = points;
  Sum after;
  for (std::size_t i = points.size(); i-- > 0;) {
    after.add(points[i].y, keep);
    out[i].y = (before[i].values + after.values - points[i].y) /
               (before[i].weights + after.weights - 1);  // the point itself is in both
  }
  return out;
}

Curve smooth_curve(std::vector<Point> points) {
  constexpr double kHalfLives = 100;  // in the whole curve: noise goes, a sudden drop stays
  Curve curve{.raw = std::move(points), .smooth = {}};
  const double number = static_cast<double>(curve.raw.size());
  curve.smooth = smoothed(curve.raw, std::max(1.0, number / kHalfLives));
  return curve;
}

std::vector<Point> thinned(const std::vector<Point>& points, std::size_t columns) {
  if (points.size() <= 4 * columns) return points;
  const double left = points.front().x, width = points.back().x - left;
  const auto column_of = [&](const Point& p) {
    const double column = std::floor((p.x - left) / width * static_cast<double>(columns));
    return std::min(column, static_cast<double>(columns - 1));
  };
  const auto lower = [](const Point& a, const Point& b) { return a.y < b.y; };
  std::vector<Point> out;
  for (auto begin = points.begin(); begin != points.end();) {
    const auto end = std::find_if(
        begin, points.end(), [&](const Point& p) { return column_of(p) != column_of(*begin); });
    const auto [lowest, highest] = std::minmax_element(begin, end, lower);
    std::array kept{begin, lowest, highest, end - 1};
    std::ranges::sort(kept);
    const auto different = std::ranges::unique(kept);
    for (auto at = kept.begin(); at != different.begin(); ++at) out.push_back(**at);
    begin = end;
  }
  return out;
}

}  // namespace troupe::launch
