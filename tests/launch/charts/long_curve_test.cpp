#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <limits>

#include "launch/charts/curve.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(long_curve_test)

using launch::LongCurve;
using launch::Point;

BOOST_AUTO_TEST_CASE(a_short_curve_is_whole) {
  LongCurve curve;
  BOOST_TEST(curve.empty());
  BOOST_TEST(curve.curve().raw.empty());
  std::vector<Point> points;
  for (int i = 1; i <= 1024; ++i) {
    points.push_back({.x = static_cast<double>(i), .y = static_cast<double>(i * i % 97)});
    curve.add(points.back());
  }
  BOOST_TEST((curve.curve().raw == points));
  BOOST_TEST((curve.curve().smooth == launch::smooth_curve(points).smooth));
}

BOOST_AUTO_TEST_CASE(a_long_curve_keeps_its_ends_and_extremes) {
  LongCurve curve;
  for (int i = 1; i <= 1'000'000; ++i) {
    double y = 2;
    if (i == 3) y = 9;
    if (i == 777'777) y = -1;
    curve.add({.x = static_cast<double>(i), .y = y});
  }
  const auto [raw, smooth] = curve.curve();
  BOOST_TEST(raw.size() <= 4 * LongCurve::kMostColumns);
  BOOST_TEST(smooth.size() > LongCurve::kMostColumns / 2 - 1);
  BOOST_TEST((raw.front() == Point{1, 2}));
  BOOST_TEST((raw.back() == Point{1'000'000, 2}));
  BOOST_TEST(std::ranges::count(raw, Point{3, 9}) == 1);
  BOOST_TEST(std::ranges::count(raw, Point{777'777, -1}) == 1);
  BOOST_TEST(std::ranges::is_sorted(raw, {}, &Point::x));
  for (const Point& p : smooth) BOOST_TEST(p.y == 2, boost::test_tools::tolerance(0.05));
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_or_goes_back_is_left_out) {
  LongCurve curve;
  for (const Point& p : {Point{5, 1}, Point{6, std::numeric_limits<double>::quiet_NaN()},
                         Point{5, 2}, Point{4, 3}, Point{7, 4}})
    curve.add(p);
  BOOST_TEST((curve.curve().raw == std::vector<Point>{{5, 1}, {7, 4}}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
