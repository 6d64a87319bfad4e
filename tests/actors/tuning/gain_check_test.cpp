#include "actors/tuning/gain_check.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <optional>
#include <random>

#include "actors/tuning/rank_sum.h"
#include "actors/tuning/step_meter.h"
#include "tests/support/seed.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(gain_check_test)

namespace {

using Verdict = GainCheck::Verdict;
constexpr int kRounds = 2000;

/// Step times on a machine with other work to do: they differ by `noise`, and one of twenty is
/// delayed by something else.
struct Machine {
  std::mt19937_64 random;
  double noise;
  double step(double seconds) {
    std::lognormal_distribution<double> jitter(0, noise);
    const bool is_held_up = std::uniform_int_distribution(0, 19)(random) == 0;
    return seconds * jitter(random) + (is_held_up ? 2 * seconds : 0);
  }
};

/// The verdict on steps that take 1 s before a change and `after` since.
Verdict judged(Machine& machine, double after) {
  std::vector<double> old_steps;
  while (old_steps.size() < StepMeter::kSteps) old_steps.push_back(machine.step(1));
  GainCheck check({.name = "other", .step_s = after, .old_steps = old_steps});
  std::optional<Verdict> verdict = check.stepped(100);  // the first step includes the start
  BOOST_TEST(!verdict.has_value());
  for (std::size_t i = 0; i < GainCheck::kMostSteps && !verdict; ++i)
    verdict = check.stepped(machine.step(after));
  BOOST_REQUIRE(verdict.has_value());
  return *verdict;
}

/// The share of changes that are kept.
double kept(double noise, double after) {
  Machine machine{std::mt19937_64(test::fresh_seed()), noise};
  int kept = 0;
  for (int round = 0; round < kRounds; ++round) kept += judged(machine, after).is_gain();
  const double share = static_cast<double>(kept) / kRounds;
  BOOST_TEST_MESSAGE("noise " << noise << ", a step of " << after << " s: " << 100 * share
                              << " % kept");
  return share;
}

}  // namespace

/// The result is close to the exact distribution: of the 252 ways to place five of ten, 12 have a
/// rank sum of at most 19, and 146 one of at most 28.
BOOST_AUTO_TEST_CASE(rank_sums_have_the_chances_that_counting_gives) {
  const auto close = boost::test_tools::tolerance(0.02);
  BOOST_TEST(chance_of_lower({1, 2, 3, 5, 8}, {4, 6, 7, 9, 10}) == 12.0 / 252, close);
  BOOST_TEST(chance_of_lower({1, 4, 5, 8, 10}, {2, 3, 6, 7, 9}) == 146.0 / 252, close);
  BOOST_TEST(chance_of_lower({6, 7, 8, 9, 10}, {1, 2, 3, 4, 5}) > 0.99);
  BOOST_TEST(chance_of_lower({1, 1, 1}, {1, 1, 1, 1}) == 1);  // nothing distinguishes them
  BOOST_TEST(chance_of_lower({}, {1}) == 1);
}

/// With any noise, a change that is no gain is kept at most once in twenty times.
BOOST_AUTO_TEST_CASE(a_change_that_makes_steps_no_shorter_is_taken_back) {
  // 5 % of 2000 rounds are 100, with a standard deviation of 10.
  for (const double noise : {0.001, 0.03, 0.1, 0.3}) BOOST_TEST(kept(noise, 1.0) <= 0.07);
  BOOST_TEST(kept(0.05, 1.078) <= 0.01);
  BOOST_TEST(kept(0.1, 1.078) <= 0.01);
  BOOST_TEST(kept(0.3, 1.43) <= 0.001);
}

BOOST_AUTO_TEST_CASE(a_gain_beyond_the_noise_stays) {
  BOOST_TEST(kept(0.03, 0.95) >= 0.9);
  BOOST_TEST(kept(0.1, 0.8) >= 0.95);
  BOOST_TEST(kept(0.3, 0.5) >= 0.95);
}

BOOST_AUTO_TEST_CASE(what_is_clear_is_known_early_and_nothing_is_looked_at_for_ever) {
  Machine machine{std::mt19937_64(test::fresh_seed()), 0.01};
  BOOST_TEST(judged(machine, 1.43).steps.size() <= 24u);
  BOOST_TEST(judged(machine, 0.7).steps.size() <= 24u);
  GainCheck check({.old_steps = std::vector<double>(StepMeter::kSteps, 1.0)});
  for (std::size_t i = 0; i < GainCheck::kMostSteps; ++i) BOOST_TEST(!check.stepped(1).has_value());
  const auto verdict = check.stepped(1);
  BOOST_REQUIRE(verdict.has_value());
  BOOST_TEST(verdict->kind == Verdict::unclear);
}

/// A worker is lost meanwhile: the step after it takes longer.
BOOST_AUTO_TEST_CASE(the_first_step_of_each_configuration_counts_for_nothing) {
  GainCheck check({.name = "other", .step_s = 0.5, .old_steps = std::vector<double>(12, 1.0)});
  for (const double seconds : {50.0, 0.5, 0.5, 0.5})
    BOOST_TEST(!check.stepped(seconds).has_value());
  check.begin();
  for (const double seconds : {50.0, 0.5, 0.5}) BOOST_TEST(!check.stepped(seconds).has_value());
  const auto verdict = check.stepped(0.5);
  BOOST_REQUIRE(verdict.has_value());
  BOOST_TEST(verdict->steps == std::vector<double>(6, 0.5), boost::test_tools::per_element());
  BOOST_TEST(verdict->text().find("measured gain 50.0 %") != std::string::npos, verdict->text());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
