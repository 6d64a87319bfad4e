#pragma once

#include <cstddef>
#include <vector>

#include "launch/charts/curve.h"

namespace troupe::launch {

/// A curve that grows for as long as it likes in bounded memory. It has columns of an equal number
/// of points, of which each keeps the first, the lowest, the highest and the last one, and the mean
/// of all. When there are too many columns, each becomes one with its neighbour.
class LongCurve {
 public:
  static constexpr std::size_t kMostColumns = 1024;

  /// Adds a point. One that is not finite, or not right of all others, is left out.
  void add(const Point& point);
  /// The points that are kept, and the columns' means smoothed as smooth_curve() does.
  Curve curve() const;
  bool empty() const { return columns_.empty(); }

 private:
  struct Column {
    Point first, lowest, highest, last;
    Point sum{};
    std::size_t count = 0;

    void add(const Point& point);
    void add(const Column& right);
  };
  void widen();

  std::vector<Column> columns_;
  std::size_t per_column_ = 1;  // points of every column but the last, which may have fewer
};

}  // namespace troupe::launch
