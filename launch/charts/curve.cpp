#include "launch/charts/curve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace troupe::launch {
namespace {

/// Weighted sums over the points on one side of a point: of the weights, of the values, and of both
/// times the distance.
struct Moments {
  double weights = 0, distances = 0, squares = 0;
  double values = 0, products = 0;

  /// The same points, seen from the next one.
  Moments one_further(double keep) const {
    return {.weights = keep * weights,
            .distances = keep * (distances + weights),
            .squares = keep * (squares + 2 * distances + weights),
            .values = keep * values,
            .products = keep * (products + values)};
  }
  /// Adds the point itself.
  void add(double value) {
    weights += 1;
    values += value;
  }
};

/// The value, at a point, of the line that fits it and the points on both sides best.
double fitted(const Moments& before, double value, const Moments& after) {
  const double weights = before.weights + 1 + after.weights;
  const double distances = after.distances - before.distances;
  const double squares = before.squares + after.squares;
  const double values = before.values + value + after.values;
  const double products = after.products - before.products;
  const double determinant = weights * squares - distances * distances;
  return determinant > 0 ? (squares * values - distances * products) / determinant : value;
}

}  // namespace

std::vector<Point> finite(std::vector<Point> points) {
  std::erase_if(points, [](const Point& p) { return !std::isfinite(p.y); });
  return points;
}

std::vector<Point> smoothed(const std::vector<Point>& points, double half_life) {
  const double keep = std::exp2(-1 / half_life);
  std::vector<Moments> before(points.size());
  Moments sum;
  for (std::size_t i = 0; i < points.size(); ++i) {
    before[i] = sum = sum.one_further(keep);
    sum.add(points[i].y);
  }
  const auto [lowest, highest] = std::ranges::minmax_element(points, {}, &Point::y);
  std::vector<Point> out = points;
  Moments after;
  for (std::size_t i = points.size(); i-- > 0;) {
    after = after.one_further(keep);
    out[i].y = std::clamp(fitted(before[i], points[i].y, after), lowest->y, highest->y);
    after.add(points[i].y);
  }
  return out;
}

Curve smooth_curve(std::vector<Point> points) {
  constexpr double kHalfLives = 100;  // in the whole curve: noise goes, a sudden drop stays
  constexpr double kPerPoint = 0.1;   // of a half-life at the beginning, for each point before
  Curve curve{.raw = std::move(points), .smooth = {}};
  const double longest = std::max(1.0, static_cast<double>(curve.raw.size()) / kHalfLives);
  double half_life = 1;
  curve.smooth = smoothed(curve.raw, half_life);
  // Each round makes the rest of the curve smoother, from the point on where its half-life is due.
  while (half_life < longest) {
    const double next = std::min(2 * half_life, longest);
    const auto smoother = smoothed(curve.raw, next);
    for (std::size_t i = 0; i < smoother.size(); ++i) {
      const double due = kPerPoint * static_cast<double>(i);
      const double share = std::clamp((due - half_life) / (next - half_life), 0.0, 1.0);
      curve.smooth[i].y += share * (smoother[i].y - curve.smooth[i].y);
    }
    half_life = next;
  }
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

void LongCurve::Column::add(const Point& point) {
  add(Column{
      .first = point, .lowest = point, .highest = point, .last = point, .sum = point, .count = 1});
}

void LongCurve::Column::add(const Column& right) {
  if (count == 0) {
    *this = right;
    return;
  }
  if (right.lowest.y < lowest.y) lowest = right.lowest;
  if (right.highest.y > highest.y) highest = right.highest;
  last = right.last;
  sum.x += right.sum.x;
  sum.y += right.sum.y;
  count += right.count;
}

void LongCurve::add(const Point& point) {
  if (!std::isfinite(point.y) || (!empty() && point.x <= columns_.back().last.x)) return;
  if (empty() || columns_.back().count == per_column_) {
    if (columns_.size() == kMostColumns) widen();
    columns_.emplace_back();
  }
  columns_.back().add(point);
}

void LongCurve::widen() {
  for (std::size_t i = 0; 2 * i < columns_.size(); ++i) {
    Column both = columns_[2 * i];
    both.add(columns_[2 * i + 1]);
    columns_[i] = both;
  }
  columns_.resize(columns_.size() / 2);
  per_column_ *= 2;
}

Curve LongCurve::curve() const {
  std::vector<Point> kept, means;
  for (const Column& column : columns_) {
    std::array points{column.first, column.lowest, column.highest, column.last};
    std::ranges::sort(points, {}, &Point::x);
    const auto repeated = std::ranges::unique(points);
    kept.insert(kept.end(), points.begin(), repeated.begin());
    const auto count = static_cast<double>(column.count);
    means.push_back({.x = column.sum.x / count, .y = column.sum.y / count});
  }
  return {.raw = std::move(kept), .smooth = smooth_curve(std::move(means)).smooth};
}

}  // namespace troupe::launch
