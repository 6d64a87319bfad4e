#include <boost/test/unit_test.hpp>
#include <limits>
#include <regex>

#include "launch/charts/line_chart.h"
#include "launch/charts/stacked_bar.h"
#include "launch/charts/timeline.h"
#include "tests/support/xml.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(charts_test)

namespace {

using launch::LineChart;
using launch::Point;
using launch::Strip;

LineChart chart_of(std::vector<Point> points) {
  return {.label = "Loss",
          .x_name = "step",
          .height = 222,
          .x = launch::exact_axis(0, 100000, 5),
          .series = {{.name = "loss", .look = "raw s0", .points = std::move(points)}}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_line_has_its_extremes_however_many_points_there_are) {
  std::vector<Point> points;
  for (int i = 0; i <= 100000; ++i) points.push_back({.x = static_cast<double>(i), .y = 2});
  points[31416].y = 9.5;  // one step among many
  points[77777].y = std::numeric_limits<double>::quiet_NaN();
  const auto tree = parse_xml(launch::draw(chart_of(points)));
  const auto paths = attributes_of(tree, "path", "d");
  BOOST_REQUIRE(paths.size() == 1u);
  const std::string& path = *paths.begin();
  BOOST_TEST(path.size() < 80000u);
  BOOST_TEST(path.starts_with("M0 "));
  // The axis goes from 2 to 10 over 192 pixels from 200 upwards.
  BOOST_TEST(path.find("L314.16 20") != std::string::npos);
  BOOST_TEST(path.find("nan") == std::string::npos);
  BOOST_TEST(attributes_of(tree, "div", "aria-label").contains("Loss"));
}

BOOST_AUTO_TEST_CASE(a_chart_without_values_is_empty) {
  BOOST_TEST(launch::draw(chart_of({})) == "");
  BOOST_TEST(launch::draw(chart_of({{1, std::numeric_limits<double>::infinity()}})) == "");
}

BOOST_AUTO_TEST_CASE(one_step_is_a_dot) {
  const auto paths = attributes_of(parse_xml(launch::draw(chart_of({{50000, 3}}))), "path", "d");
  BOOST_REQUIRE(paths.size() == 1u);
  BOOST_TEST(paths.begin()->starts_with("M500 "));
  BOOST_TEST(paths.begin()->ends_with("h0"));
}

BOOST_AUTO_TEST_CASE(a_bar_has_its_parts_side_by_side) {
  const std::string bar = launch::stacked_bar("time",
                                              {{.name = "a", .value = 1, .text = "25 %"},
                                               {.name = "none", .value = 0, .text = ""},
                                               {.name = "b", .value = 3, .text = "75 %"}},
                                              4);
  const auto tree = parse_xml(bar);
  BOOST_TEST((attributes_of(tree, "rect", "x") == std::multiset<std::string>{"0%", "25%"}));
  BOOST_TEST((attributes_of(tree, "rect", "width") == std::multiset<std::string>{"25%", "75%"}));
  BOOST_TEST((attributes_of(tree, "rect", "fill") ==
              std::multiset<std::string>{"url(#part0)", "url(#part2)"}));
  BOOST_TEST(attributes_of(tree, "svg", "aria-label").contains("time: a 25 %, b 75 %."));
}

BOOST_AUTO_TEST_CASE(marks_in_one_place_become_one_that_names_all) {
  Strip strip{.name = "saved"};
  for (int i = 0; i < 10000; ++i)
    strip.marks.push_back({.x = static_cast<double>(i), .text = "checkpoint " + std::to_string(i)});
  const std::string drawn = launch::draw_timeline(
      "what", launch::exact_axis(0, 10000, 5),
      {{.name = "shape", .spans = {{.from = 0, .to = 5000, .text = "pp 4"}}}, strip});
  const auto tree = parse_xml(drawn);
  BOOST_TEST(attributes_of(tree, "path", "d").size() <= 401u);
  BOOST_TEST(attributes_of(tree, "rect", "width").contains("50%"));
  for (const char* text : {">pp 4<", "checkpoint 0\n", "checkpoint 9999<"})
    BOOST_TEST(drawn.find(text) != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(fills_differ_by_more_than_their_colour) {
  const auto tree = parse_xml(launch::fill_patterns());
  const auto names = attributes_of(tree, "pattern", "id");
  for (const char op : {'F', 'B', 'I', 'W'})
    BOOST_TEST(names.contains(launch::fill_of(schedules::Op{op}).substr(5, 3)), op);
  for (std::size_t n = 0; n < 8; ++n) BOOST_TEST(names.contains("part" + std::to_string(n)));
  // One part and one action are plain; the others have lines.
  const auto lines = attributes_of(tree, "path", "d");
  BOOST_TEST(names.size() == 13u);
  BOOST_TEST(lines.size() == 11u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
