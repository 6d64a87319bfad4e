#include "launch/charts/axis.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>

#include "tests/support/seed.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(axis_test)

using launch::Axis;
using Labels = std::vector<std::string>;

BOOST_AUTO_TEST_CASE(a_rounded_axis_ends_at_its_outermost_ticks) {
  const Axis axis = launch::rounded_axis(2.1, 5.59, 5);
  BOOST_TEST(axis.low == 2);
  BOOST_TEST(axis.high == 6);
  BOOST_TEST((launch::labels_of(axis) == Labels{"2", "3", "4", "5", "6"}));
  BOOST_TEST(axis.share(3) == 0.25);
}

BOOST_AUTO_TEST_CASE(an_exact_axis_ends_at_its_values) {
  const Axis axis = launch::exact_axis(0, 12345, 4);
  BOOST_TEST(axis.high == 12345);
  BOOST_TEST((launch::labels_of(axis) == Labels{"0", "5,000", "10,000"}));
  BOOST_TEST((launch::labels_of(launch::exact_axis(0, 0.02, 2)) == Labels{"0.00", "0.01", "0.02"}));
}

BOOST_AUTO_TEST_CASE(an_axis_holds_all_values_at_any_scale) {
  std::mt19937_64 rng(fresh_seed());
  for (int i = 0; i < 1000; ++i) {
    const double scale = std::pow(10, std::uniform_int_distribution<>(-6, 9)(rng));
    std::uniform_real_distribution<double> value(-scale, scale);
    const auto [low, high] = std::minmax({value(rng), value(rng)});
    const Axis axis = launch::rounded_axis(low, high, 5);
    BOOST_TEST(axis.low <= low + 1e-6 * (high - low));
    BOOST_TEST(axis.high >= high - 1e-6 * (high - low));
    BOOST_TEST(axis.ticks.size() >= 2u);
    BOOST_TEST(axis.ticks.size() <= 8u);
    const auto labels = launch::labels_of(axis);
    for (std::size_t l = 1; l < labels.size(); ++l)
      BOOST_TEST(labels[l] != labels[l - 1], axis.low << " to " << axis.high);
  }
}

BOOST_AUTO_TEST_CASE(values_that_are_all_the_same_get_an_axis) {
  for (const double value : {3.0, -7e-9, 1e-310}) {
    const Axis axis = launch::rounded_axis(value, value, 5);
    BOOST_TEST(axis.low < value);
    BOOST_TEST(axis.high > value);
  }
  const Axis zero = launch::rounded_axis(0, 0, 5);
  BOOST_TEST((launch::labels_of(zero) == Labels{"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
}

BOOST_AUTO_TEST_CASE(an_axis_of_what_is_counted_has_whole_ticks) {
  BOOST_TEST((launch::labels_of(launch::counting_axis(0, 3, 8)) == Labels{"0", "1", "2", "3"}));
  BOOST_TEST((launch::labels_of(launch::counting_axis(7, 8, 8)) == Labels{"7", "8"}));
  BOOST_TEST((launch::counting_axis(0, 12345, 4).ticks == launch::exact_axis(0, 12345, 4).ticks));
}

BOOST_AUTO_TEST_CASE(labels_stay_short) {
  BOOST_TEST((launch::labels_of(launch::rounded_axis(0, 3e-7, 3)) ==
              Labels{"0", "1e-07", "2e-07", "3e-07"}));
  BOOST_TEST((launch::labels_of(launch::rounded_axis(1e-6, 1.2e-6, 3)) ==
              Labels{"1.0e-06", "1.1e-06", "1.2e-06"}));
  BOOST_TEST(
      (launch::labels_of(launch::rounded_axis(0, 1e-5, 2)) == Labels{"0", "5.0e-06", "1.0e-05"}));
  std::mt19937_64 rng(fresh_seed());
  for (int i = 0; i < 1000; ++i) {
    const double scale = std::pow(10, std::uniform_int_distribution<>(-15, 3)(rng));
    const double value = std::uniform_real_distribution<double>(-scale, scale)(rng);
    for (const auto& label : launch::labels_of(launch::rounded_axis(0, value + 2 * scale, 5)))
      BOOST_TEST(label.size() <= 8u, label);
  }
}

BOOST_AUTO_TEST_CASE(a_logarithmic_axis_has_powers_of_ten) {
  const launch::Axis axis = launch::logarithmic_axis(0.5, 2000, 8);
  const auto near = boost::test_tools::tolerance(1e-12);
  BOOST_REQUIRE(axis.ticks.size() == 4u);
  BOOST_TEST(axis.ticks.front() == 1, near);
  BOOST_TEST(axis.ticks.back() == 1000, near);
  BOOST_TEST(axis.share(0.5) == 0);
  BOOST_TEST(axis.share(2000) == 1, near);
  BOOST_TEST(axis.share(10) - axis.share(1) == axis.share(1000) - axis.share(100), near);
  BOOST_TEST(launch::logarithmic_axis(1, 100, 8).ticks.size() == 7u);  // 1, 2, 5, 10, 20, 50, 100
}

BOOST_AUTO_TEST_CASE(within_one_power_a_logarithmic_axis_has_the_ticks_of_a_linear_one) {
  const launch::Axis axis = launch::logarithmic_axis(1.5, 6, 4);
  BOOST_TEST((axis.ticks == std::vector<double>{2, 4, 6}));
  BOOST_TEST(axis.low == 1.5);
  BOOST_TEST(axis.share(3) == 0.5, boost::test_tools::tolerance(1e-12));  // 1.5 * 2 * 2 = 6
  const launch::Axis same = launch::logarithmic_axis(2, 2, 4);
  BOOST_TEST(same.low > 0);
  BOOST_TEST(same.high > same.low);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
