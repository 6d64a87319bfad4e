#include "stages/inference/sampling.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/support/expect_error.h"
#include "tests/support/seed.h"

BOOST_AUTO_TEST_SUITE(sampling_test)

using namespace troupe;
using stages::Sampler;
using stages::Sampling;

namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

/// The probabilities of the tokens as transformers' warpers leave them: temperature,
/// TopKLogitsWarper, TopPLogitsWarper, by their definition. Among equal logits top-p keeps the
/// lower ids.
std::vector<double> expected(const std::vector<float>& logits, const Sampling& sampling) {
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  const auto k = static_cast<std::size_t>(sampling.top_k);
  const float least = k > 0 && k < logits.size() ? logits[order[k - 1]] : kNone;
  std::vector<double> p(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (logits[i] >= least) p[i] = std::exp((logits[i] - max) / sampling.temperature);
  const auto normalize = [&p] {
    const double total = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& x : p) x /= total;
  };
  normalize();
  double before = 0;  // probability of all that are likelier
  for (const std::size_t i : order) {
    const double own = p[i];
    if (before >= sampling.top_p && before > 0) p[i] = 0;
    before += own;
  }
  normalize();
  return p;
}

/// How far a count of `draws` of probability `p` is from its mean but once in 1e9 tests, at most:
/// Bernstein's inequality, which holds for rare tokens too, whose counts are far from normal.
double largest_deviation(int draws, double p) {
  const double exponent = std::log(2e9);
  const double variance = draws * p * (1 - p);
  return exponent / 3 + std::sqrt(exponent * exponent / 9 + 2 * exponent * variance);
}

void check_shares(const std::vector<float>& logits, const Sampling& sampling,
                  std::uint64_t prompt) {
  BOOST_TEST_CONTEXT("temperature " << sampling.temperature << " top_k " << sampling.top_k
                                    << " top_p " << sampling.top_p
                                    << " TROUPE_TEST_SEED=" << sampling.seed) {
    constexpr int kDraws = 20000;
    const std::vector<double> p = expected(logits, sampling);
    std::vector<int> seen(logits.size());
    Sampler sampler(sampling);
    for (std::uint64_t position = 0; position < kDraws; ++position)
      ++seen[static_cast<std::size_t>(sampler(logits, {prompt, position}))];
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (p[i] == 0) BOOST_TEST(seen[i] == 0, "token " << i << " is left out");
      BOOST_TEST(std::abs(seen[i] - kDraws * p[i]) <= largest_deviation(kDraws, p[i]),
                 "token " << i << ": " << seen[i] << " of " << kDraws * p[i]);
    }
  }
}

std::vector<float> random_logits(std::size_t count, std::mt19937_64& random) {
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(count);
  for (float& x : logits) x = normal(random);
  return logits;
}

}  // namespace

BOOST_AUTO_TEST_CASE(tokens_are_drawn_as_often_as_the_warpers_say) {
  const std::uint64_t seed = test::fresh_seed();
  std::mt19937_64 random(seed);
  for (const double temperature : {0.5, 1.0, 2.0})
    for (const std::int64_t top_k : {0, 1, 5, 40, 100})
      for (const double top_p : {0.0, 0.2, 0.9, 1.0})
        check_shares(random_logits(40, random),
                     {.temperature = temperature, .top_k = top_k, .top_p = top_p, .seed = seed},
                     random() % 1000);
}

BOOST_AUTO_TEST_CASE(a_token_of_no_probability_is_never_drawn) {
  const std::uint64_t seed = test::fresh_seed();
  check_shares({0.0f, std::log(2.0f), kNone, std::log(5.0f)}, {.seed = seed}, 0);
  check_shares({kNone, 3.0f, kNone}, {.top_k = 2, .top_p = 0.5, .seed = seed}, 0);
}

BOOST_AUTO_TEST_CASE(equal_logits_at_the_limit_of_top_k_all_stay) {
  const std::uint64_t seed = test::fresh_seed();
  check_shares({1.0f, 2.0f, 1.0f, 0.0f, 1.0f}, {.top_k = 2, .seed = seed}, 0);
}

BOOST_AUTO_TEST_CASE(top_p_leaves_the_likeliest_token_at_least) {
  std::vector<float> logits(1000, 0.0f);
  logits[700] = 1e-3f;
  for (const double top_p : {0.0, 1e-9}) {
    Sampler sampler({.top_p = top_p});
    for (std::uint64_t position = 0; position < 50; ++position)
      BOOST_TEST(sampler(logits, {0, position}) == 700);
  }
  // Of equals the first.
  BOOST_TEST(Sampler({.top_p = 0})(std::vector<float>(9, 2.0f), {0, 0}) == 0);
}

BOOST_AUTO_TEST_CASE(what_top_k_leaves_out_does_not_count_for_top_p) {
  // 0.5 of all is 0.625 of what top-k leaves, which is enough for top-p.
  const std::vector<float> logits{std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  check_shares(logits, {.top_k = 2, .top_p = 0.6, .seed = test::fresh_seed()}, 0);
  Sampler sampler({.top_k = 2, .top_p = 0.6});
  for (std::uint64_t position = 0; position < 50; ++position)
    BOOST_TEST(sampler(logits, {0, position}) == 0);
}

BOOST_AUTO_TEST_CASE(temperature_zero_takes_the_first_of_the_likeliest) {
  const std::vector<float> logits = {-1.0f, 3.0f, 2.0f, 3.0f};
  for (std::uint64_t seed = 0; seed < 5; ++seed)
    BOOST_TEST(Sampler({.temperature = 0, .top_k = 3, .top_p = 0.1, .seed = seed})(logits, {}) ==
               1);
}

BOOST_AUTO_TEST_CASE(a_draw_is_a_pure_function_of_seed_prompt_and_position) {
  const std::vector<float> logits(50, 0.0f);
  const auto drawn = [&](std::uint64_t seed, std::uint64_t prompt) {
    Sampler sampler({.seed = seed});
    std::vector<std::int32_t> ids;
    for (std::uint64_t position = 0; position < 20; ++position)
      ids.push_back(sampler(logits, {prompt, position}));
    return ids;
  };
  BOOST_TEST((drawn(7, 3) == drawn(7, 3)));
  BOOST_TEST((drawn(7, 3) != drawn(8, 3)));
  BOOST_TEST((drawn(7, 3) != drawn(7, 4)));
  // Draws before do not matter.
  Sampler sampler({.seed = 7});
  const std::int32_t first = sampler(logits, {3, 12});
  sampler(logits, {5, 1});
  BOOST_TEST(sampler(logits, {3, 12}) == first);
  BOOST_TEST(first == drawn(7, 3)[12]);
}

BOOST_AUTO_TEST_CASE(logits_that_are_no_numbers_are_told) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> unsound{
      {kNaN}, {1, kNaN, 2}, {kNaN, 1}, {1, -kNone}, {kNone, kNone}};
  for (const double temperature : {0.0, 1.0})
    for (const std::vector<float>& logits : unsound)
      test::expect_error(ErrorKind::internal, {"prompt 3", "token 1", "not finite"},
                         [&] { Sampler({.temperature = temperature})(logits, {.prompt = 2}); });
}

BOOST_AUTO_TEST_SUITE_END()
