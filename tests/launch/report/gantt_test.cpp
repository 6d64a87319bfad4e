#include <boost/test/unit_test.hpp>

#include "launch/report/run_page.h"
#include "tests/support/xml.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(gantt_test)

BOOST_AUTO_TEST_CASE(a_step_is_drawn_with_a_box_for_each_action) {
  const auto action = [](const char* name, double begin, double end) {
    return launch::TimedAction{
        .action = *schedules::parse_action(name), .begin_s = begin, .end_s = end};
  };
  const std::vector<launch::RankRow> rows{
      {.rank = 3, .actions = {action("0F7", 0, 1), action("0B7", 1, 3)}},
      {.rank = 4, .actions = {action("1F8", 1, 4), action("1B7", 2, 4)}}};
  const std::string drawn = launch::draw_gantt("step", rows, 4);
  const auto tree = parse_xml(drawn);
  const auto fills = attributes_of(tree, "rect", "fill");
  BOOST_TEST(fills.count("url(#opF)") == 2u);
  BOOST_TEST(fills.count("url(#opB)") == 2u);
  const auto heights = attributes_of(tree, "rect", "height");
  BOOST_TEST(heights.count("10") == 2u);  // those that overlap share the row
  BOOST_TEST(drawn.find("rank 3, 0B7: 2 s, from 1 s on") != std::string::npos, drawn);
  BOOST_TEST(!attributes_of(tree, "rect", "class").contains("wait"));
  const std::string legend = launch::gantt_legend(rows);
  BOOST_TEST(legend.find("backward") != std::string::npos);
  BOOST_TEST(legend.find("weight") == std::string::npos);
  BOOST_TEST(legend.find("collectives") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_wait_for_collectives_takes_its_share_of_the_action) {
  const std::vector<launch::RankRow> rows{{.rank = 1,
                                           .actions = {{.action = *schedules::parse_action("0F0"),
                                                        .begin_s = 0,
                                                        .end_s = 2,
                                                        .collective_s = 0.5}}}};
  const std::string drawn = launch::draw_gantt("step", rows, 4);
  const auto tree = parse_xml(drawn);
  BOOST_TEST(attributes_of(tree, "rect", "class").contains("wait in"));
  BOOST_TEST(attributes_of(tree, "rect", "height").contains("5"));  // a quarter of the box
  BOOST_TEST(drawn.find("of which it waited 500 ms for collectives") != std::string::npos, drawn);
  BOOST_TEST(launch::gantt_legend(rows).find("waiting for collectives") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_wait_is_drawn_from_the_action_before_it_on) {
  const auto late = [](double waited, int from) {
    const std::vector<launch::RankRow> rows{
        {.rank = 1,
         .actions = {{.action = *schedules::parse_action("1F0"), .begin_s = 0, .end_s = 1},
                     {.action = *schedules::parse_action("1F1"),
                      .begin_s = 3,
                      .end_s = 4,
                      .waited_s = waited,
                      .from = from}}}};
    return launch::draw_gantt("step", rows, 4);
  };
  const std::string drawn = late(1.5, 0);
  BOOST_TEST(attributes_of(parse_xml(drawn), "rect", "x").contains("37.5%"));
  BOOST_TEST(drawn.find("rank 1 waits 1.5 s for the activations of microbatch 1 from rank 0") !=
             std::string::npos);
  // The clock of a wait may have begun while the action before it ran.
  BOOST_TEST(attributes_of(parse_xml(late(2.5, 0)), "rect", "width").contains("50%"));
  for (const std::string& none : {late(1.5, -1), late(0, 0)})
    BOOST_TEST(!attributes_of(parse_xml(none), "rect", "class").contains("wait"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
