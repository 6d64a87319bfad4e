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
