#include "launch/charts/curve.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "tests/support/seed.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(curve_test)

namespace {

using launch::Point;

std::vector<Point> random_walk(std::mt19937_64& rng, std::size_t count) {
  std::vector<Point> points;
  double y = 0;
  for (std::size_t i = 0; i < count; ++i) {
    y += std::uniform_real_distribution<double>(-1, 1)(rng);
    points.push_back({.x = static_cast<double>(i), .y = y});
  }
  return points;
}

}  // namespace

BOOST_AUTO_TEST_CASE(values_that_are_not_finite_are_left_out) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = INFINITY;
  const auto kept = launch::finite({{1, nan}, {2, 5}, {3, inf}, {4, -inf}, {5, 6}});
  BOOST_TEST((kept == std::vector<Point>{{2, 5}, {5, 6}}));
}

BOOST_AUTO_TEST_CASE(a_smoothed_value_lies_on_the_line_that_fits_those_around_it) {
  std::mt19937_64 rng(fresh_seed());
  const auto points = random_walk(rng, 50);
  const double half_life = 4;
  const auto smooth = launch::smoothed(points, half_life);
  BOOST_REQUIRE(smooth.size() == points.size());
  const auto [lowest, highest] = std::ranges::minmax_element(points, {}, &Point::y);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto weight = [&](const Point& p) {
      return std::pow(0.5, std::abs(points[i].x - p.x) / half_life);
    };
    double weights = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (const Point& p : points) {
      weights += weight(p);
      x += weight(p) * p.x;
      y += weight(p) * p.y;
    }
    x /= weights;
    y /= weights;
    for (const Point& p : points) {
      xx += weight(p) * (p.x - x) * (p.x - x);
      xy += weight(p) * (p.x - x) * (p.y - y);
    }
    const double line = std::clamp(y + xy / xx * (points[i].x - x), lowest->y, highest->y);
    BOOST_TEST(smooth[i].x == points[i].x);
    BOOST_TEST(std::abs(smooth[i].y - line) < 1e-9 * (1 + std::abs(line)));
  }
}

BOOST_AUTO_TEST_CASE(a_straight_line_stays_as_it_is_to_its_ends) {
  std::vector<Point> line;
  for (int i = 0; i < 1000; ++i) line.push_back({.x = 1.0 * i, .y = 10 - 0.01 * i});
  for (const std::size_t count : {1, 2, 3, 1000}) {
    const std::vector<Point> some(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(count));
    const auto smooth = launch::smooth_curve(some).smooth;
    for (std::size_t i = 0; i < count; ++i) BOOST_TEST(std::abs(smooth[i].y - some[i].y) < 1e-9);
  }
}

BOOST_AUTO_TEST_CASE(a_thinned_curve_keeps_the_ends_and_extremes_of_each_column) {
  std::mt19937_64 rng(fresh_seed());
  constexpr std::size_t kColumns = 37;
  const auto points = random_walk(rng, 10000);
  const auto thin = launch::thinned(points, kColumns);
  BOOST_TEST(thin.size() <= 4 * kColumns);
  BOOST_TEST((thin.front() == points.front()));
  BOOST_TEST((thin.back() == points.back()));
  BOOST_TEST(std::ranges::is_sorted(thin, {}, &Point::x));
  const auto extremes = [&](const std::vector<Point>& some) {
    std::map<std::size_t, std::pair<double, double>> of;
    for (const Point& p : some) {
      const auto column =
          std::min(kColumns - 1, static_cast<std::size_t>(p.x / points.back().x * kColumns));
      auto [at, is_new] = of.try_emplace(column, p.y, p.y);
      at->second.first = std::min(at->second.first, p.y);
      at->second.second = std::max(at->second.second, p.y);
    }
    return of;
  };
  BOOST_TEST((extremes(thin) == extremes(points)));
}

BOOST_AUTO_TEST_CASE(a_short_curve_stays_as_it_is) {
  const std::vector<Point> few{{1, 2}, {2, 1}};
  BOOST_TEST((launch::thinned(few, 1) == few));
  BOOST_TEST(launch::thinned({}, 1).empty());
  BOOST_TEST(launch::smooth_curve({}).smooth.empty());
}

/// A loss that falls steeply at first, with noise: the smoothed curve falls as steeply, and has
/// less noise later.
BOOST_AUTO_TEST_CASE(a_smoothed_curve_follows_its_beginning) {
  std::mt19937_64 rng(fresh_seed());
  std::uniform_real_distribution<double> noise(-0.05, 0.05);
  const auto loss = [](std::size_t step) {
    return 3 + 8 * std::exp(-static_cast<double>(step) / 8);
  };
  std::vector<Point> points;
  for (std::size_t i = 0; i < 2000; ++i)
    points.push_back({.x = static_cast<double>(i), .y = loss(i) + noise(rng)});
  const auto smooth = launch::smooth_curve(points).smooth;
  double worst = 0, later = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double off = std::abs(smooth[i].y - loss(i));
    (i < 200 ? worst : later) = std::max(i < 200 ? worst : later, off);
  }
  BOOST_TEST(worst < 0.3);  // of a fall by 8
  BOOST_TEST(later < 0.03);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
