#include "tests/schedules/orders.h"

BOOST_AUTO_TEST_SUITE(csv_test)

using namespace troupe::schedules;

namespace {

PlanError refused(std::string_view text) {
  const auto parsed = parse_csv(text);
  BOOST_REQUIRE_MESSAGE(std::holds_alternative<PlanError>(parsed), "\"" << text << "\" was read");
  return std::get<PlanError>(parsed);
}
void check_refused(std::string_view text, int line, int column, std::string_view part) {
  const PlanError error = refused(text);
  BOOST_TEST_CONTEXT("\"" << text << "\": " << error.message) {
    BOOST_TEST(error.line == line);
    BOOST_TEST(error.column == column);
    BOOST_TEST(error.message.find(part) != std::string::npos);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(actions_read_and_write) {
  for (const std::string_view text : {"0F0", "1B3", "12I0", "7W1023", "2147483647F2147483647"}) {
    const auto action = parse_action(text);
    BOOST_REQUIRE(action.has_value());
    BOOST_TEST(to_string(*action) == text);
  }
  BOOST_TEST(*parse_action("2F5") == (Action{.chunk = 2, .op = Op::F, .microbatch = 5}));
}

BOOST_AUTO_TEST_CASE(what_is_no_action) {
  for (const std::string_view text : {"",
                                      "F",
                                      "0",
                                      "0F",
                                      "F0",
                                      "0X0",
                                      "0f0",
                                      "00F0",
                                      "0F00",
                                      "-1F0",
                                      "+1F0",
                                      "0F-1",
                                      "0F+1",
                                      "0F0 ",
                                      " 0F0",
                                      "0F0F0",
                                      "0 F0",
                                      "2147483648F0",
                                      "0F99999999999999999999",
                                      "0.5F0"}) {
    BOOST_TEST(!parse_action(text).has_value(), "\"" << text << "\" was read");
  }
}

BOOST_AUTO_TEST_CASE(a_plan_survives_its_text) {
  for (const auto& [kind, shape] :
       {std::pair("gpipe", ScheduleShape{.stages = 2, .microbatches = 3}),
        std::pair("1f1b", ScheduleShape{.stages = 4, .microbatches = 2}),
        std::pair("interleaved", ScheduleShape{.stages = 3, .chunks = 4, .microbatches = 6}),
        std::pair("forward-only", ScheduleShape{.stages = 1, .chunks = 2, .microbatches = 1})}) {
    Plan plan = make(kind, shape);
    const Plan read = plan_of(to_csv(plan));
    BOOST_TEST(read.kind == "csv");
    plan.kind = "csv";
    BOOST_TEST(read == plan);
  }
}

BOOST_AUTO_TEST_CASE(pairs_survive_their_text) {
  const Plan plan = plan_of("0F0, (0F1;0B0) ,(0F2;0I1)OVERLAP_F_B,0W1,0B2");
  BOOST_TEST(to_csv(plan) == "0F0,(0F1;0B0),(0F2;0I1),0W1,0B2\n");
  BOOST_TEST(plan.actions[0][1].overlaps_next);
  BOOST_TEST(!plan.actions[0][2].overlaps_next);
  BOOST_TEST(rule_broken(plan) == "");
}

BOOST_AUTO_TEST_CASE(two_copies_are_known_by_their_microbatches) {
  for (const std::string_view kind : {"dualpipe", "chimera"}) {
    Plan plan = make(kind, {.stages = 4, .chunks = 2, .microbatches = 8});
    BOOST_TEST(plan.num_copies == 2);
    plan.kind = "csv";
    BOOST_TEST(plan_of(to_csv(plan)) == plan);
  }
  BOOST_TEST(plan_of("0F0,0B0\n1F0,1B0\n").num_copies == 1);
}

BOOST_AUTO_TEST_CASE(spaces_idle_slots_and_line_ends_are_skipped) {
  const Plan plan = plan_of(" 0F0 ,\t, 0B0,,\r\n,1F0,1B0\r\n\n  \n,,\n");
  BOOST_TEST(to_csv(plan) == "0F0,0B0\n1F0,1B0\n");
  BOOST_TEST(plan.num_microbatches == 1);
}

BOOST_AUTO_TEST_CASE(an_empty_line_between_ranks_is_a_rank_without_work) {
  const Plan plan = plan_of("0F0,0B0\n\n1F0,1B0\n");
  BOOST_TEST(plan.num_ranks() == 3);
  BOOST_TEST(rule_broken(plan) == "SCHED-1");
}

BOOST_AUTO_TEST_CASE(bad_text_is_refused_at_its_place) {
  check_refused("", 1, 1, "no action");
  check_refused(" ,\n,, \n", 1, 1, "no action");
  check_refused("0F0,0B0,\n1F0, 1X0", 2, 6, "\"1X0\" is no action");
  for (const std::string_view pair : {"(0F1;0F0)", "(0F1;0W0)", "(0B0;0F1)", "(0F0;0B0)", "(0F1)",
                                      "(0F1;0B0", "(0F1;0B0;0F2)", "(0F1;0B0)OVERLAP", "()", "("}) {
    check_refused("0F0," + std::string(pair), 1, 5, "\"" + std::string(pair) + "\" is no pair");
  }
  check_refused("0F0,0B0\n0F1,0B1", 2, 1, "puts chunk 0 on rank 1, but line 1 has it on rank 0");
  check_refused("0F0,2F0,2B0,0B0", 1, 5, "no action of chunk 1");
  check_refused("0F0\n999999999F0", 2, 1, "too high");
  check_refused("0F0,0F2147483647", 1, 5, "too high");
}

BOOST_AUTO_TEST_CASE(an_error_shows_little_and_printable_text) {
  const std::string text = std::string("\x01\xff") + std::string(1000, 'x');
  const PlanError error = refused(text);
  BOOST_TEST(error.message.find("\"??xxx") != std::string::npos);
  BOOST_TEST(error.message.size() < 200u);
}

BOOST_AUTO_TEST_CASE(the_digest_tells_plans_apart) {
  const Plan plan = make("1f1b", {.stages = 2, .microbatches = 4});
  BOOST_TEST(digest(plan) == digest(plan_of(to_csv(plan))));
  BOOST_TEST(digest(plan) != digest(make("gpipe", {.stages = 2, .microbatches = 4})));
  BOOST_TEST(digest(plan) != digest(make("1f1b", {.stages = 2, .microbatches = 5})));
  // FNV-1a of "0F0\n", as other implementations compute it.
  BOOST_TEST(digest(plan_of("0F0")) == 0x43aa3dfb56d3dc11u);
}

BOOST_AUTO_TEST_SUITE_END()
