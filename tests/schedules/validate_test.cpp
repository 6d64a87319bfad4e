#include "schedules/analysis/validate.h"

#include "tests/schedules/orders.h"

BOOST_AUTO_TEST_SUITE(validate_test)

using namespace troupe::schedules;

namespace {

/// The violation of a plan that must have one.
Violation wrong_with(const Plan& plan, Purpose purpose = Purpose::training) {
  const auto wrong = validate(plan, purpose);
  BOOST_REQUIRE_MESSAGE(wrong.has_value(), "valid: " << plan);
  return *wrong;
}
void check_place(const Violation& wrong, std::string_view rule, int rank, int index) {
  BOOST_TEST_CONTEXT(wrong.rule << " " << wrong.message) {
    BOOST_TEST(wrong.rule == rule);
    BOOST_TEST(wrong.rank == rank);
    BOOST_TEST(wrong.index == index);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(published_schedules_are_valid) {
  BOOST_TEST(rule_broken(make("gpipe", {.stages = 3, .microbatches = 5})) == "");
  BOOST_TEST(rule_broken(make("1f1b", {.stages = 3, .microbatches = 5})) == "");
  BOOST_TEST(rule_broken(make("interleaved", {.stages = 3, .chunks = 2, .microbatches = 6})) == "");
  const Plan forward = make("forward-only", {.stages = 3, .chunks = 2, .microbatches = 5});
  BOOST_TEST(rule_broken(forward, Purpose::forward_only) == "");
}

BOOST_AUTO_TEST_CASE(rule_1_numbers_lie_within_the_plan) {
  BOOST_TEST(rule_broken(Plan{}) == "SCHED-1");
  Plan plan = plan_of("0F0,0B0\n1F0,1B0\n");
  plan.actions[1][1].chunk = 2;
  check_place(wrong_with(plan), "SCHED-1", 1, 1);
  plan.actions[1][1] = {1, Op::B, -1};
  check_place(wrong_with(plan), "SCHED-1", 1, 1);
  plan = plan_of("0F0,0B0\n1F0,1B0\n");
  plan.rank_of_chunk[1] = 2;
  BOOST_TEST(rule_broken(plan) == "SCHED-1");
  plan.rank_of_chunk[1] = 0;
  BOOST_TEST(wrong_with(plan).message == "rank 1 holds no chunk");
  plan = plan_of("0F0,0B0");
  plan.num_microbatches = 0;
  BOOST_TEST(rule_broken(plan) == "SCHED-1");
}

BOOST_AUTO_TEST_CASE(rule_2_actions_run_where_their_chunk_is) {
  Plan plan = plan_of("0F0,0B0\n1F0,1B0\n");
  plan.actions[0].push_back({1, Op::B, 0});
  const Violation wrong = wrong_with(plan);
  check_place(wrong, "SCHED-2", 0, 2);
  BOOST_TEST(wrong.message == "1B0 of rank 0 belongs to rank 1, which holds chunk 1");
}

BOOST_AUTO_TEST_CASE(rule_3_each_forward_is_there_once) {
  check_place(wrong_with(plan_of("0F0,0F1,0F0,0B0,0B1")), "SCHED-3", 0, 2);
  const Violation wrong = wrong_with(plan_of("0F0,0B0,0B1"));
  check_place(wrong, "SCHED-3", 0, 3);
  BOOST_TEST(wrong.message == "rank 0 lacks 0F1");
  BOOST_TEST(wrong.grid == "rank 0  0F0 0B0 0B1 (end)\n                    ^^^^^\n");
}

BOOST_AUTO_TEST_CASE(rule_3_a_plan_that_lacks_almost_all_is_refused_without_much_memory) {
  Plan plan = plan_of("0F0,0B0");
  plan.num_microbatches = 2'000'000'000;
  BOOST_TEST(wrong_with(plan).message == "rank 0 lacks 0F1");
}

BOOST_AUTO_TEST_CASE(rule_4_each_backward_is_there_once) {
  check_place(wrong_with(plan_of("0F0,0B0,0B0")), "SCHED-4", 0, 2);
  check_place(wrong_with(plan_of("0F0,0B0,0W0")), "SCHED-4", 0, 2);
  check_place(wrong_with(plan_of("0F0,0I0,0B0")), "SCHED-4", 0, 1);
  check_place(wrong_with(plan_of("0F0,0F1,0B0")), "SCHED-4", 0, 3);
  BOOST_TEST(wrong_with(plan_of("0F0,0I0")).message == "rank 0 lacks 0W0, the other half of 0I0");
  BOOST_TEST(wrong_with(plan_of("0F0,0W0")).message == "rank 0 lacks 0I0, the other half of 0W0");
}

BOOST_AUTO_TEST_CASE(rule_4_forward_only_plans_have_no_backward) {
  check_place(wrong_with(plan_of("0F0,0B0"), Purpose::forward_only), "SCHED-4", 0, 1);
  BOOST_TEST(rule_broken(plan_of("0F0"), Purpose::forward_only) == "");
  BOOST_TEST(rule_broken(plan_of("0F0"), Purpose::training) == "SCHED-4");
}

BOOST_AUTO_TEST_CASE(rule_5_the_actions_of_a_microbatch_are_in_order) {
  check_place(wrong_with(plan_of("0B0,0F0")), "SCHED-5", 0, 0);
  check_place(wrong_with(plan_of("0I0,0F0,0W0")), "SCHED-5", 0, 0);
  const Violation wrong = wrong_with(plan_of("0F0,0W0,0I0"));
  check_place(wrong, "SCHED-5", 0, 1);
  BOOST_TEST(wrong.message == "0W0 of rank 0 comes before its 0I0");
}

BOOST_AUTO_TEST_CASE(rule_6_weight_gradients_ascend) {
  const Plan plan = plan_of("0F0,0F1,0B1,0B0");
  check_place(wrong_with(plan), "SCHED-6", 0, 2);
  BOOST_TEST(rule_broken(in_order(plan)) == "");
}

BOOST_AUTO_TEST_CASE(rule_7_ranks_do_not_wait_in_a_circle) {
  const Violation wrong = wrong_with(plan_of("0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n"));
  check_place(wrong, "SCHED-7", 0, 1);
  BOOST_TEST(wrong.message ==
             "the plan waits for ever: "
             "0B0 of rank 0 waits for the gradient of microbatch 0 from chunk 1 on rank 1; "
             "1F1 of rank 1 waits for the activation of microbatch 1 from chunk 0 on rank 0");
  BOOST_TEST(wrong.grid ==
             "rank 0  0F0 0B0 0F1 0B1\n"
             "            ^^^\n"
             "rank 1  1F1 1F0 1B0 1B1\n"
             "        ^^^\n");
}

BOOST_AUTO_TEST_CASE(rule_7_a_rank_does_not_wait_for_its_own_later_action) {
  const Violation wrong = wrong_with(plan_of("1F0,0F0,1B0,0B0"));
  check_place(wrong, "SCHED-7", 0, 0);
  BOOST_TEST(wrong.message ==
             "the plan waits for ever: "
             "1F0 of rank 0 waits for the activation of microbatch 0 from chunk 0 on rank 0");
}

BOOST_AUTO_TEST_CASE(the_circle_is_found_behind_ranks_that_only_follow) {
  // Rank 0 waits for rank 1, which waits in a cycle with rank 2.
  const Violation wrong =
      wrong_with(plan_of("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n2F1,2F0,2B0,2B1\n"));
  check_place(wrong, "SCHED-7", 1, 1);
  BOOST_TEST(wrong.message.find("rank 0") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_grid_shows_the_neighbourhood_alone) {
  Plan plan = make("1f1b", {.stages = 1, .microbatches = 20});
  std::swap(plan.actions[0][20], plan.actions[0][21]);
  const Violation wrong = wrong_with(plan);
  BOOST_TEST(wrong.grid ==
             "rank 0  ... 0F7 0B7 0F8 0B8 0F9 0B9 0B10 0F10 0F11 0B11 0F12 0B12 0F13 ...\n"
             "                                    ^^^^\n");
}

BOOST_AUTO_TEST_CASE(a_pair_is_a_forward_and_a_backward_of_another_microbatch) {
  Plan plan = plan_of("0F0,(0F1;0B0),0B1");
  BOOST_TEST(rule_broken(plan) == "");
  plan.actions[0][1].overlaps_next = false;
  for (const int index : {0, 2, 3}) {
    Plan broken = plan;
    broken.actions[0][index].overlaps_next = true;
    BOOST_TEST(rule_broken(broken) == "SCHED-8");
  }
}

BOOST_AUTO_TEST_CASE(each_copy_takes_its_half_of_the_microbatches) {
  const Plan plan = make("chimera", {.stages = 2, .chunks = 2, .microbatches = 4});
  BOOST_TEST(rule_broken(plan) == "");
  Plan other_half = plan;
  other_half.actions[0].front().microbatch = 3;
  BOOST_TEST(rule_broken(other_half) == "SCHED-1");
  Plan uneven = plan;
  uneven.num_microbatches = 3;
  BOOST_TEST(rule_broken(uneven) == "SCHED-1");
  Plan one = plan;
  one.num_copies = 1;
  BOOST_TEST(rule_broken(one) == "SCHED-3");
}

BOOST_AUTO_TEST_CASE(a_pair_whose_parts_wait_for_each_other_waits_for_ever) {
  // 1F1 needs 0F1, which is paired with 0B0, which needs 1B0, which is paired with 1F1.
  const Plan plan = plan_of("0F0,(0F1;0B0),0B1\n1F0,(1F1;1B0),1B1\n");
  const auto wrong = validate(plan, Purpose::training);
  BOOST_REQUIRE(wrong.has_value());
  BOOST_TEST(wrong->rule == "SCHED-7");
  BOOST_TEST(wrong->message.find("0F1 of rank 0 starts together with 0B0") != std::string::npos,
             wrong->message);
}

BOOST_AUTO_TEST_SUITE_END()
