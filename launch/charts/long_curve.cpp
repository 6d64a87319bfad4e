#include "launch/charts/long_curve.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace troupe::launch {

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
