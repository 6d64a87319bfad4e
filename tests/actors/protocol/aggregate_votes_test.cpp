#include "actors/protocol/votes/aggregate_votes.h"

#include <boost/test/unit_test.hpp>
#include <limits>

#include "actors/protocol/votes/step_votes.h"
#include "tests/support/run_specs.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(aggregate_votes_test)

namespace {

/// Votes of a replica whose parameters are cut after `cut` of them.
ReplicaPrepared cut_after(std::size_t cut, const std::vector<double>& squares,
                          const std::vector<stages::ParameterInfo>& parameters) {
  std::vector<Ready> ready{Ready{}, Ready{.rank = 1}};
  std::vector<Prepared> votes{Prepared{.configuration = 1, .step = 2},
                              Prepared{.configuration = 1, .step = 2, .rank = 1, .loss_sum = 3}};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::size_t stage = i < cut ? 0 : 1;
    ready[stage].parameters.push_back(static_cast<std::uint32_t>(i));
    votes[stage].squared_norms.push_back(squares[i]);
  }
  return aggregate_votes(0, votes, ready, {.pp = 2}, parameters);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_norm_has_the_same_bits_wherever_the_model_is_cut) {
  const auto parameters = stages::parameters_of(test::small_run().model);
  std::vector<double> squares;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    squares.push_back(1.0 / (3.0 + static_cast<double>(i * i)));
  const double whole = cut_after(parameters.size(), squares, parameters).squared_norm;
  for (std::size_t cut = 0; cut < parameters.size(); ++cut)
    BOOST_REQUIRE(cut_after(cut, squares, parameters).squared_norm == whole);
  BOOST_TEST(cut_after(3, squares, parameters).loss_sum == 3.0);
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_is_named) {
  const auto parameters = stages::parameters_of(test::small_run().model);
  std::vector<double> squares(parameters.size(), 1.0);
  squares[5] = std::numeric_limits<double>::infinity();
  const auto bad = cut_after(3, squares, parameters);
  BOOST_TEST(bad.not_finite ==
             "the gradient of " + parameters[5].name + " is not finite on stage 1 of replica 0");

  const std::vector<Prepared> votes{Prepared{.rank = 1, .bad_microbatch = 6}};
  BOOST_TEST(aggregate_votes(1, votes, {Ready{}}, {.dp = 2}, parameters).not_finite ==
             "the loss of microbatch 6 is not finite on stage 0 of replica 1");
}

BOOST_AUTO_TEST_CASE(a_gradient_that_is_not_finite_before_the_sum_is_its_rank_s) {
  const auto parameters = stages::parameters_of(test::small_run().model);
  const Ready owner{.parameters = {0}};
  const std::vector<double> not_a_number{std::numeric_limits<double>::quiet_NaN()};
  const std::vector<Prepared> innocent{Prepared{.squared_norms = not_a_number}};
  const std::vector<Prepared> culprit{
      Prepared{.rank = 3, .bad_gradient = "the gradient of x", .squared_norms = not_a_number}};
  const ReplicaPrepared first = aggregate_votes(0, innocent, {owner}, {.dp = 2}, parameters);
  const ReplicaPrepared second = aggregate_votes(1, culprit, {owner}, {.dp = 2}, parameters);
  BOOST_TEST(!first.is_own);
  BOOST_TEST(second.is_own);
  BOOST_TEST(second.not_finite == "rank 3: the gradient of x");
  StepVotes votes;
  votes.begin(2);
  votes.add(first);
  votes.add(second);
  BOOST_TEST(votes.not_finite(1) == "rank 3: the gradient of x");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
