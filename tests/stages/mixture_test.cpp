#include "stages/corpus/samples/mixture.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "tests/support/mutate.h"
#include "tests/support/seed.h"

BOOST_AUTO_TEST_SUITE(mixture_test)

using troupe::stages::Mixture;
namespace test = troupe::test;

namespace {

/// Weights of very different sizes, in any order.
std::vector<double> random_weights(std::mt19937_64& random) {
  std::vector<double> weights(1 + test::below(random, 12));
  std::uniform_real_distribution<double> exponent(-3, 3);
  for (double& weight : weights) weight = std::pow(10.0, exponent(random));
  return weights;
}

double bound(std::size_t sources) {
  return 1 + std::log(static_cast<double>(sources)) / 2;
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_source_has_every_position) {
  const Mixture mixture(std::vector{0.25});
  for (const std::int64_t p : {std::int64_t{0}, std::int64_t{7}, std::int64_t{1} << 60})
    BOOST_TEST((mixture[p] == Mixture::Draw{0, p}));
}

BOOST_AUTO_TEST_CASE(the_example_of_the_readme) {
  const Mixture mixture(std::vector{2.0, 1.0, 1.0});
  std::vector<int> sources;
  for (std::int64_t p = 0; p < 8; ++p) sources.push_back(mixture[p].source);
  BOOST_TEST((sources == std::vector{0, 1, 0, 2, 0, 1, 0, 2}));
}

BOOST_AUTO_TEST_CASE(each_source_is_walked_through_and_none_strays_from_its_weight) {
  std::mt19937_64 random(test::fresh_seed());
  for (int round = 0; round < 50; ++round) {
    const std::vector<double> weights = random_weights(random);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    const Mixture mixture(weights);
    std::vector<std::int64_t> counts(weights.size());
    for (std::int64_t p = 0; p < 5000; ++p) {
      const auto [source, number] = mixture[p];
      // The number that a position computes is the count of all positions before it.
      BOOST_REQUIRE(number == counts.at(static_cast<std::size_t>(source))++);
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const double share = static_cast<double>(p + 1) * weights[i] / sum;
        BOOST_REQUIRE(std::abs(static_cast<double>(counts[i]) - share) <= bound(weights.size()));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(far_positions_keep_to_the_weights) {
  std::mt19937_64 random(test::fresh_seed());
  for (int round = 0; round < 200; ++round) {
    const std::vector<double> weights = random_weights(random);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    const Mixture mixture(weights);
    // 10^15 samples: products of positions and shares exceed 64 bits.
    const auto p = static_cast<std::int64_t>(test::below(random, 1'000'000'000'000'000));
    const auto [source, number] = mixture[p];
    const double share = weights[static_cast<std::size_t>(source)] / sum;
    const double rounding =
        static_cast<double>(p) * std::pow(2.0, -32) * static_cast<double>(weights.size());
    BOOST_TEST(std::abs(static_cast<double>(number) - static_cast<double>(p) * share) <=
               bound(weights.size()) + rounding);
  }
}

BOOST_AUTO_TEST_CASE(scaled_weights_are_the_same_mixture) {
  std::mt19937_64 random(test::fresh_seed());
  std::vector<double> weights = random_weights(random);
  const Mixture mixture(weights);
  for (double& weight : weights) weight *= 1024;
  const Mixture scaled(weights);
  for (std::int64_t p = 0; p < 1000; ++p) BOOST_TEST((mixture[p] == scaled[p]));
}

BOOST_AUTO_TEST_CASE(a_source_of_little_weight_comes_too) {
  const Mixture mixture(std::vector{1e308, 1e-308});
  BOOST_TEST(mixture[std::int64_t{1} << 33].source == 0);
  std::int64_t low = 0, high = std::int64_t{1} << 33;  // the first position with one of it before
  while (low + 1 < high) {
    const std::int64_t p = std::midpoint(low, high);
    const auto draw = mixture[p];
    (draw.source == 1 || p - draw.number > 0 ? high : low) = p;
  }
  BOOST_TEST(high < std::int64_t{1} << 33);
}

BOOST_AUTO_TEST_SUITE_END()
