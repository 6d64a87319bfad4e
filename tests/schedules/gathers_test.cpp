#include "schedules/drawing/draw.h"
#include "tests/schedules/orders.h"

// Tests when the divided weights of a plan's actions are gathered on paper, by hand.

BOOST_AUTO_TEST_SUITE(gathers_test)

using namespace troupe::schedules;
namespace tt = boost::test_tools;

namespace {

/// F and B take 6, and so do the gathers of all that either reads.
Costs six_each(const Gathering& gathering) {
  return {.stages = {{.forward = 6,
                      .input_gradient = 3,
                      .weight_gradient = 3,
                      .gathers = {.forward = 6, .backward = 6}}},
          .gathering = gathering};
}

Simulation simulated(std::string_view csv, const Gathering& gathering) {
  auto out = simulate(plan_of(csv), six_each(gathering));
  BOOST_REQUIRE(out.has_value());
  return *out;
}

/// "F0 0-2" for each gather of a rank: what it is for, its unit, and its time.
std::string gathers_of(const Simulation& simulation, int rank) {
  std::ostringstream out;
  for (const Gather& gather : simulation.gathers[static_cast<std::size_t>(rank)])
    out << (out.tellp() > 0 ? ", " : "") << (gather.backward ? 'B' : 'F') << gather.unit << ' '
        << gather.start << '-' << gather.end;
  return out.str();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_unit_is_gathered_while_the_one_before_is_computed_with) {
  const auto out = simulated("0F0,0F1,0B0,0B1", {.units = 3, .ahead = 1});
  // Units 0 and 2 have a room in turn, and unit 1 stays in its own.
  BOOST_TEST(gathers_of(out, 0) ==
             "F0 0-2, F1 2-4, F2 4-6, F0 8-10, F2 12-14, B2 0-2, B1 2-4, B0 18-20, B2 22-24, "
             "B0 26-28");
  // The first unit is waited for, and those that follow the one of the same room.
  BOOST_TEST(out.wall == 24 + 2 + 2 + 2);
  BOOST_TEST(out.collective == std::vector{6.0}, tt::per_element());
  BOOST_TEST(out.busy == std::vector{30.0}, tt::per_element());
}

BOOST_AUTO_TEST_CASE(units_for_which_there_is_room_are_gathered_once) {
  const auto out = simulated("0F0,0F1,0B0,0B1", {.units = 3, .ahead = 2});
  BOOST_TEST(gathers_of(out, 0) == "F0 0-2, F1 2-4, F2 4-6, B2 0-2, B1 2-4, B0 4-6");
  BOOST_TEST(out.wall == 24 + 2);
}

BOOST_AUTO_TEST_CASE(without_room_ahead_each_gather_is_waited_for) {
  const auto out = simulated("0F0,0B0", {.units = 2, .ahead = 0});
  // Backwards have room of their own, so their first unit is there.
  BOOST_TEST(gathers_of(out, 0) == "F0 0-3, F1 6-9, B1 0-3, B0 15-18");
  BOOST_TEST(out.wall == 12 + 3 + 3 + 3);
}

BOOST_AUTO_TEST_CASE(kept_weights_are_gathered_once) {
  const auto out = simulated("0F0,0F1,0B0,0B1", {.units = 2, .ahead = 0, .reshards = false});
  BOOST_TEST(gathers_of(out, 0) == "F0 0-3, F1 6-9");
  BOOST_TEST(out.wall == 24 + 3 + 3);
}

BOOST_AUTO_TEST_CASE(chunks_of_a_rank_have_rooms_in_turn) {
  // Chunk 2 is the second one of rank 0; its only unit has the other room.
  const auto out = simulated("0F0,2F0,2B0,0B0\n1F0,1B0\n", {.units = 1, .ahead = 1});
  BOOST_TEST(gathers_of(out, 0) == "F0 0-3, F0 3-6, B0 0-3, B0 3-6");
}

BOOST_AUTO_TEST_CASE(a_weight_gradient_reads_no_weights) {
  const auto out = simulated("0F0,0F1,0I0,0W0,0B1", {.units = 1, .ahead = 1});
  BOOST_TEST(gathers_of(out, 0) == "F0 0-6, B0 0-6");
  BOOST_TEST(out.wall == 24 + 6);
}

BOOST_AUTO_TEST_CASE(a_pair_hides_the_waits_of_its_actions) {
  const auto out = simulated("0F0,(0F1;0B0),0B1", {.units = 2, .ahead = 0});
  BOOST_TEST(out.times[0][1].start == 12);
  BOOST_TEST(out.times[0][1].end == 24);  // F waits 6 and B 3 if each runs alone
  BOOST_TEST(out.wall == 24 + 6 + 3);
  BOOST_TEST(out.collective == std::vector{9.0}, tt::per_element());
}

BOOST_AUTO_TEST_CASE(gathers_that_take_no_time_change_nothing) {
  const Plan plan = make("interleaved", {.stages = 4, .chunks = 2, .microbatches = 8});
  const auto without = simulate(plan, Costs{}), with = simulate(plan, {.gathering = {.units = 3}});
  BOOST_TEST(with->wall == without->wall);
  for (const auto& gathers : with->gathers) BOOST_TEST(gathers.empty());
}

/// A step is as long as without gathers at least, and at most as if each were waited for.
BOOST_AUTO_TEST_CASE(room_hides_gathers_under_every_schedule) {
  for (const char* kind : {"1f1b", "interleaved", "zb-h1", "gpipe"}) {
    const int chunks = kind == std::string_view("interleaved") ? 2 : 1;
    const Plan plan = make(kind, {.stages = 4, .chunks = chunks, .microbatches = 8});
    Costs costs = six_each({.units = 4, .ahead = 0});
    const double most = simulate(plan, costs)->wall;
    for (StageCosts& stage : costs.stages) stage.gathers = {};
    const double least = simulate(plan, costs)->wall;
    for (int ahead = 1; ahead <= 4; ++ahead) {
      const double wall = simulate(plan, six_each({.units = 4, .ahead = ahead}))->wall;
      BOOST_TEST(wall <= most, kind << " with room for " << ahead << " more");
      BOOST_TEST(wall >= least, kind << " with room for " << ahead << " more");
    }
  }
}

BOOST_AUTO_TEST_CASE(a_trace_has_tracks_for_gathers) {
  const Plan plan = plan_of("0F0,0B0");
  const std::string text = to_trace(plan, *simulate(plan, six_each({.units = 2, .ahead = 1})));
  for (const char* part :
       {R"("name":"rank 0, gathers for forwards")", R"("name":"rank 0, gathers for backwards")",
        R"("name":"0F unit 1","cat":"gather","ph":"X","pid":0,"tid":2,"ts":3000)"})
    BOOST_TEST(text.find(part) != std::string::npos, part << " is not in\n" << text);
}

BOOST_AUTO_TEST_SUITE_END()
