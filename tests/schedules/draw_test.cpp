#include "schedules/draw.h"

#include <algorithm>

#include "tests/schedules/orders.h"

using namespace troupe::schedules;

namespace {

std::string grid(const Plan& plan, const Costs& costs) {
  return to_grid(plan, *simulate(plan, costs));
}
std::string svg(const Plan& plan, const Costs& costs) {
  return to_svg(plan, *simulate(plan, costs));
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_grid_has_a_line_a_rank_and_a_column_a_slot) {
  const Plan plan = make("1f1b", {.stages = 3, .microbatches = 3});
  BOOST_TEST(grid(plan, Costs{}) ==
             "slot   0  1  2  3  4  5  6  7  8  9  10 11 12 13 14\n"
             "rank 0 F0 F1 F2 .  .  .  .  B0 -  .  B1 -  .  B2 -\n"
             "rank 1 .  F0 F1 .  .  B0 -  F2 B1 -  .  B2 -  .  .\n"
             "rank 2 .  .  F0 B0 -  F1 B1 -  F2 B2 -  .  .  .  .\n");
}

BOOST_AUTO_TEST_CASE(chunks_are_named_where_a_rank_has_several) {
  const Plan plan = plan_of("0F0,1F0,1I0,1W0,0B0");
  BOOST_TEST(grid(plan, Costs{}) ==
             "slot   0   1   2   3   4   5\n"
             "rank 0 0F0 1F0 1I0 1W0 0B0 -\n");
}

BOOST_AUTO_TEST_CASE(slots_round_and_titles_line_up) {
  const Plan plan = make("gpipe", {.stages = 11, .microbatches = 1});
  const auto text = grid(
      plan,
      {.stages = {{.forward = 0.3, .input_gradient = 0.2, .weight_gradient = 0.25}}, .hop = 0.1});
  BOOST_TEST(text.starts_with("slot    0  1  2"));
  BOOST_TEST(text.find("\nrank 0  F0 .") != std::string::npos);
  BOOST_TEST(text.find("\nrank 10 .  .") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(actions_that_take_no_time_are_drawn_too) {
  const Plan plan = plan_of("0F0,0B0");
  const Costs costs{.stages = {{.forward = 0, .input_gradient = 0, .weight_gradient = 0}}};
  BOOST_TEST(grid(plan, costs) == "slot   0  1\nrank 0 F0 B0\n");
  BOOST_TEST(svg(plan, costs).find("nan") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_picture_has_a_box_an_action) {
  const Plan plan = plan_of("0F0,0B0\n1F0,1I0,1W0\n");
  const std::string text = svg(plan, Costs{});
  BOOST_TEST(text.starts_with("<svg xmlns='http://www.w3.org/2000/svg'"));
  BOOST_TEST(text.ends_with("</svg>\n"));
  BOOST_TEST(count(text, "<title>") == 5u);
  BOOST_TEST(count(text, "<title>1W0, 3 to 4</title>") == 1u);
  BOOST_TEST(count(text, "<g>") == count(text, "</g>"));
  BOOST_TEST(count(text, "<text") == count(text, "</text>"));
  BOOST_TEST(count(text, ">rank 1</text>") == 1u);
}
