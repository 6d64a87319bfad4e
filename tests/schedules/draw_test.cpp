#include "schedules/drawing/draw.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "tests/schedules/orders.h"

BOOST_AUTO_TEST_SUITE(draw_test)

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

BOOST_AUTO_TEST_CASE(a_picture_shows_idle_time_and_has_an_axis_in_time) {
  const Plan plan = plan_of("0F0,0B0\n1F0,1B0\n");
  const Costs costs{.stages = {{.forward = 40, .input_gradient = 40, .weight_gradient = 40}}};
  const std::string slots = svg(plan, costs);
  BOOST_TEST(count(slots, ">idle</text>") == 1u);
  BOOST_TEST(count(slots, "slots of 40") == 1u);
  const std::string time = to_svg(plan, *simulate(plan, costs), Axis::time);
  BOOST_TEST(count(time, ">100</text>") == 1u);
  BOOST_TEST(count(time, ">time; bubble rate") == 1u);
}

BOOST_AUTO_TEST_CASE(the_legend_is_inside_the_picture_and_has_every_shade) {
  // This plan is shorter than the legend is wide.
  const std::string one = svg(plan_of("0F0,0I0,0W0"), Costs{});
  double width = 0, idle = 0;
  std::sscanf(one.c_str() + one.find("<svg "),
              "<svg xmlns='http://www.w3.org/2000/svg' width='%lf'", &width);
  std::sscanf(one.c_str() + one.rfind("<text x='", one.find(">idle</text>")), "<text x='%lf'",
              &idle);
  BOOST_TEST(idle > 0);
  BOOST_TEST(idle + 30 < width);
  BOOST_TEST(count(one, "a rank's chunks") == 0u);
  // With three chunks every box has a shade of the legend.
  const std::string three = svg(plan_of("0F0,1F0,2F0,2B0,1B0,0B0"), Costs{});
  BOOST_TEST(count(three, "a rank's chunks") == 1u);
  for (const char* shade : {"'1'", "'0.816667'", "'0.633333'"})
    BOOST_TEST(count(three, "width='12' height='12' fill='" + std::string(colour_of(Op::F)) +
                                "' fill-opacity=" + shade) == 1u + (shade[1] == '1'));
}

BOOST_AUTO_TEST_CASE(a_pair_lies_one_above_the_other) {
  const Plan plan = plan_of("0F0,(0F1;0B0),0B1");
  BOOST_TEST(grid(plan, Costs{}) == "slot   0  1  2  3  4  5\nrank 0 F0 F1 B0 -  B1 -\n");
  const std::string text = svg(plan, Costs{});
  BOOST_TEST(count(text, "height='11'") == 2u);
  BOOST_TEST(count(text, "<title>0F1, 1 to 4</title>") == 1u);
  BOOST_TEST(count(text, "<title>0B0, 1 to 4</title>") == 1u);
}

BOOST_AUTO_TEST_CASE(a_trace_has_an_event_an_action) {
  const Plan plan = plan_of("0F0,(0F1;0B0),0B1\n1F0,1B0,1F1,1B1\n");
  const auto simulation = simulate(plan, Costs{});
  BOOST_REQUIRE(simulation.has_value());
  const std::string text = to_trace(plan, *simulation);
  BOOST_TEST(count(text, "\"ph\":\"X\"") == 8u);
  BOOST_TEST(count(text, "\"ph\":\"M\"") == 3u);  // rank 0 has a second track
  BOOST_TEST(count(text, "{") == count(text, "}"));
  BOOST_TEST(count(text,
                   "\"name\":\"1F0\",\"cat\":\"F\",\"ph\":\"X\",\"pid\":0,\"tid\":2,"
                   "\"ts\":1000,\"dur\":1000") == 1u);
}

/// The pictures in schedules/README.md are what the tool prints.
BOOST_AUTO_TEST_CASE(the_readme_has_a_picture_of_every_schedule) {
  std::ifstream file(std::string(__FILE__).substr(0, std::string(__FILE__).rfind("tests/")) +
                     "schedules/README.md");
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  for (const Generator& generator : generators()) {
    const std::size_t title = readme.find("\n**" + std::string(generator.name) + "**:");
    BOOST_REQUIRE_MESSAGE(title != std::string::npos, generator.name);
    const std::size_t begin = readme.find("```\n", title) + 4;
    const std::size_t shape = readme.rfind(" p = ", begin);
    int p = 0, m = 0, v = generator.chunks;
    const char* text = readme.c_str() + shape;
    if (std::sscanf(text, " p = %d, v = %d, m = %d:", &p, &v, &m) != 3) {
      v = generator.chunks;
      BOOST_REQUIRE(std::sscanf(text, " p = %d, m = %d:", &p, &m) == 2);
    }
    const Plan plan = make(generator.name, {.stages = p, .chunks = v, .microbatches = m});
    BOOST_TEST(readme.substr(begin, readme.find("```", begin) - begin) == grid(plan, Costs{}),
               generator.name);
  }
}

BOOST_AUTO_TEST_SUITE_END()
