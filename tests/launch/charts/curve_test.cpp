#include "launch/charts/curve.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "tests/support/seed.h"

namespace troupe::test {
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

BOOST_AUTO_TEST_CASE(a_smoothed_value_is_the_weighted_mean_of_those_around_it) {
  std::mt19937_64 rng(fresh_seed());
  const auto points = random_walk(rng, 50);
  const double half_life = 4;
  const auto smooth = launch::smoothed(points, half_life);
  BOOST_REQUIRE(smooth.size() == points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    double sum = 0, weights = 0;
    for (std::size_t j = 0; j < points.size(); ++j) {
      const double weight = std::pow(0.5, std::abs(points[i].x - points[j].x) / half_life);
      sum += weight * points[j].y;
      weights += weight;
    }
    BOOST_TEST(smooth[i].x == points[i].x);
    BOOST_TEST(std::abs(smooth[i].y - sum / weights) < 1e-12 * (1 + std::abs(smooth[i].y)));
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

}  // namespace troupe::test
