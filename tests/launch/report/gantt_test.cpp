#include "launch/report/gantt.h"

#include <boost/test/unit_test.hpp>

#include "tests/support/xml.h"

namespace troupe::test {

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
  const std::string legend = launch::gantt_legend(rows);
  BOOST_TEST(legend.find("backward") != std::string::npos);
  BOOST_TEST(legend.find("weight") == std::string::npos);
}

}  // namespace troupe::test
