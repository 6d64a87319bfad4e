#include <array>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <vector>

#include "actors/protocol/checkpoint_progress.h"
#include "actors/protocol/votes/evaluation_round.h"
#include "actors/protocol/votes/replica_answers.h"
#include "actors/protocol/votes/step_votes.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(rounds_test)

// --- answers to one order

BOOST_AUTO_TEST_CASE(all_have_answered_when_each_has_whatever_comes_twice) {
  ReplicaAnswers answers;
  answers.begin(2);
  answers.add(1);
  answers.add(1);
  BOOST_TEST(!answers.complete());
  answers.add(0);
  BOOST_TEST(answers.complete());
  answers.begin(2);
  BOOST_TEST(!answers.complete());
}

// --- the step under way

BOOST_AUTO_TEST_CASE(losses_are_added_in_the_order_of_replicas) {
  const double large = 1e16;  // large + 1 is large
  for (const auto& order : {std::vector{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
    StepVotes votes;
    votes.begin(3);
    for (const int replica : order)
      votes.add({.replica = replica,
                 .loss_sum = std::array{large, -large, 1.0}.at(static_cast<std::size_t>(replica))});
    BOOST_TEST(votes.complete());
    BOOST_TEST(votes.loss(4) == 0.25);
  }
}

BOOST_AUTO_TEST_CASE(the_targets_of_a_step_are_those_that_each_replica_counts) {
  StepVotes votes;
  votes.begin(2);
  BOOST_TEST(votes.targets() == 0);
  votes.add({.replica = 1, .targets = 70});
  votes.add({.replica = 0, .targets = 70});
  BOOST_TEST(votes.targets() == 70);
  votes.begin(2);
  BOOST_TEST(votes.targets() == 0);
}

BOOST_AUTO_TEST_CASE(the_norm_is_the_first_replicas) {
  StepVotes votes;
  votes.begin(2);
  votes.add({.replica = 1, .squared_norm = 9});
  votes.add({.replica = 0, .squared_norm = 16});
  BOOST_TEST(votes.grad_norm() == 4.0);
}

BOOST_AUTO_TEST_CASE(a_step_says_what_is_not_finite) {
  const double inf = std::numeric_limits<double>::infinity();
  StepVotes votes;
  votes.begin(1);
  votes.add({.loss_sum = 1, .squared_norm = 1});
  BOOST_TEST(votes.not_finite(1) == "");
  votes.add({.loss_sum = inf, .squared_norm = 1});
  BOOST_TEST(votes.not_finite(1) == "the sum over the stages is not finite");
  votes.add({.squared_norm = inf, .not_finite = "the gradient of layer 3"});
  BOOST_TEST(votes.not_finite(1) == "the gradient of layer 3");
  votes.begin(1);
  BOOST_TEST(votes.not_finite(1) == "", "a step knows nothing of the one before");
}

// --- the evaluation under way

BOOST_AUTO_TEST_CASE(batches_are_ordered_two_ahead_and_not_beyond_the_last) {
  EvaluationRound round;
  round.begin(std::vector<std::int64_t>{3}, 1);
  BOOST_TEST((round.order() == 0 && round.order() == 1 && !round.order()));
  round.add(0, 0, {.sum = 1, .targets = 5});
  BOOST_TEST((round.order() == 2 && !round.order()));
  round.add(1, 0, {.sum = 1, .targets = 10});
  BOOST_TEST(!round.order().has_value());
  BOOST_TEST((!round.idle() && !round.complete()));
  round.add(2, 0, {.sum = 1, .targets = 15});
  BOOST_TEST((round.idle() && round.complete()));
  BOOST_TEST(round.mean_losses().at(0) == 0.1);
}

BOOST_AUTO_TEST_CASE(a_batch_is_done_after_the_ones_before_it_and_when_all_replicas_are) {
  EvaluationRound round;
  round.begin(std::vector<std::int64_t>{2}, 2);
  round.add(1, 0, {.sum = 8, .targets = 10});
  round.add(1, 1, {.sum = 16, .targets = 10});
  round.add(0, 1, {.sum = 4, .targets = 5});
  BOOST_TEST(round.num_done() == 0);
  round.add(0, 0, {.sum = 2, .targets = 5});
  BOOST_TEST(round.num_done() == 2);
  BOOST_TEST(round.mean_losses().at(0) == 2.0,
             "the targets of a batch count once, not for each replica");
  round.add(0, 0, {.sum = 2, .targets = 5});
  BOOST_TEST(round.mean_losses().at(0) == 2.0, "it comes too late");
}

// --- the checkpoint under way

BOOST_AUTO_TEST_CASE(a_checkpoint_is_published_once_when_every_part_is_written) {
  CheckpointProgress checkpoint(-1);
  checkpoint.begin(4, 2);
  BOOST_TEST(!checkpoint.add({.step = 4, .replica = 1}));
  BOOST_TEST(!checkpoint.add({.step = 3, .replica = 0}), "of another step");
  BOOST_TEST(checkpoint.add({.step = 4, .replica = 0}));
  BOOST_TEST(checkpoint.publishing());
  BOOST_TEST(!checkpoint.add({.step = 4, .replica = 0}), "it is being published");
  BOOST_TEST(checkpoint.finish({.step = 4}));
  BOOST_TEST(checkpoint.saved() == 4);
  BOOST_TEST((checkpoint.settled(4) && !checkpoint.settled(5)));
  BOOST_TEST(!checkpoint.writing().has_value());
}

BOOST_AUTO_TEST_CASE(the_first_part_that_is_not_written_is_the_reason) {
  CheckpointProgress checkpoint(2);
  checkpoint.begin(4, 2);
  checkpoint.add({.step = 4, .replica = 0, .error = "no space left"});
  BOOST_TEST(checkpoint.add({.step = 4, .replica = 1, .error = "another reason"}));
  BOOST_TEST(checkpoint.error() == "no space left");
  BOOST_TEST(checkpoint.finish({.step = 4, .error = checkpoint.error()}));
  BOOST_TEST((checkpoint.failed(4) && checkpoint.settled(4)));
  BOOST_TEST(checkpoint.saved() == 2);
}

BOOST_AUTO_TEST_CASE(half_a_checkpoint_is_given_up_and_a_whole_one_is_not) {
  CheckpointProgress checkpoint(-1);
  checkpoint.begin(4, 1);
  checkpoint.give_up();
  BOOST_TEST(!checkpoint.writing().has_value());
  checkpoint.begin(5, 1);
  checkpoint.add({.step = 5});
  checkpoint.give_up();
  BOOST_TEST(checkpoint.publishing());
  BOOST_TEST(!checkpoint.finish({.step = 4}), "of a configuration before");
  BOOST_TEST(checkpoint.saved() == 4, "and yet it counts");
  BOOST_TEST(checkpoint.finish({.step = 5}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
