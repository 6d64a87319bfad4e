#include "schedules/generators/groups.h"

#include <algorithm>
#include <tuple>

#include "schedules/analysis/simulate.h"
#include "tests/schedules/orders.h"

BOOST_AUTO_TEST_SUITE(groups_test)

using namespace troupe::schedules;

namespace {

/// The interleaved plan for groups of g microbatches, also for shapes that Megatron-LM's guards
/// refuse.
Plan megatron(int p, int v, int m, int g) {
  return find_generator("interleaved")
      ->generate({.stages = p, .chunks = v, .microbatches = m, .group_size = g});
}

Simulation in_slots(const Plan& plan, int v) {
  const double slot = v;  // per chunk: F 1, B 1
  const auto out = simulate(
      plan,
      {.stages = {{.forward = slot, .input_gradient = slot / 2, .weight_gradient = slot / 2}}});
  BOOST_REQUIRE(out.has_value());
  return *out;
}

std::string why_not(std::string_view kind, const ScheduleShape& shape) {
  return find_generator(kind)->check(shape);
}

}  // namespace

BOOST_AUTO_TEST_CASE(groups_of_three_and_a_shorter_last_one) {
  const Plan plan = megatron(2, 2, 5, 3);
  BOOST_TEST(order(plan, 0) ==
             "0F0 0F1 0F2 2F0 2F1 2F2 2B0 0F3 2B1 0F4 2B2 2F3 0B0 2F4 0B1 0B2 2B3 2B4 0B3 0B4");
  BOOST_TEST(order(plan, 1) ==
             "1F0 1F1 1F2 3F0 3B0 3F1 3B1 3F2 3B2 1F3 1B0 1F4 1B1 3F3 1B2 3F4 3B3 3B4 1B3 1B4");
}

BOOST_AUTO_TEST_CASE(slots_and_peaks_of_megatron) {
  for (const auto& [p, v, m, g, slots, peak] :
       {std::tuple(2, 2, 4, 2, 18, 5), std::tuple(4, 2, 8, 4, 38, 11),
        std::tuple(4, 2, 8, 5, 39, 12), std::tuple(4, 4, 16, 4, 134, 19)}) {
    const Simulation out = in_slots(megatron(p, v, m, g), v);
    BOOST_TEST(out.wall == slots);
    for (int r = 0; r < p; ++r) BOOST_TEST(out.peak_activations[r] == peak - 2 * r);
  }
}

BOOST_AUTO_TEST_CASE(group_sizes_have_megatrons_guards) {
  const auto shape = [](int p, int m, int g) {
    ScheduleShape out;
    out.stages = p;
    out.chunks = 2;
    out.microbatches = m;
    out.group_size = g;
    return out;
  };
  BOOST_TEST(why_not("interleaved", shape(4, 6, 3)).find("size is 4") != std::string::npos);
  const std::string rest = why_not("interleaved", shape(4, 9, 4));
  BOOST_TEST(rest.find("leaves 1") != std::string::npos, rest);
  BOOST_TEST(rest.find("is 8") != std::string::npos, rest);
  BOOST_TEST(why_not("interleaved", shape(4, 6, 7)).find("size is 6") != std::string::npos);
  BOOST_TEST(why_not("interleaved", shape(4, 8, 8)) == "");
  BOOST_TEST(why_not("interleaved", shape(4, 9, 5)) == "");
}

/// PyTorch takes m microbatches in max(1, m / p) equal rounds.
BOOST_AUTO_TEST_CASE(rounds_divide_the_microbatches) {
  const auto shape = [](int p, int m) {
    ScheduleShape out;
    out.stages = p;
    out.chunks = 2;
    out.microbatches = m;
    out.grouping = Grouping::in_rounds;
    return out;
  };
  BOOST_TEST(group_size(shape(4, 8)) == 4);
  BOOST_TEST(group_size(shape(8, 20)) == 10);
  BOOST_TEST(group_size(shape(4, 3)) == 3);
  BOOST_TEST(why_not("interleaved", shape(4, 7)) == "");
  const std::string wrong = why_not("interleaved", shape(4, 9));
  BOOST_TEST(wrong.find("2 equal rounds") != std::string::npos, wrong);
  BOOST_TEST(wrong.find("below is 8") != std::string::npos, wrong);
  BOOST_TEST((make("interleaved", shape(2, 4)) == megatron(2, 2, 4, 2)));
}

BOOST_AUTO_TEST_CASE(interleaved_zb_in_uneven_rounds_peaks_higher) {
  const Plan plan = make("interleaved-zb", {.stages = 8, .chunks = 2, .microbatches = 20});
  BOOST_TEST(std::ranges::max(in_slots(plan, 2).peak_activations) == 18);
}

BOOST_AUTO_TEST_CASE(combined_on_one_stage_has_one_phase_more_than_microbatches) {
  const Plan plan = make("combined-1f1b", {.stages = 1, .microbatches = 4});
  BOOST_TEST(to_csv(plan) == "0F0,(0F1;0B0),(0F2;0B1),(0F3;0B2),0B3\n");
}

BOOST_AUTO_TEST_CASE(combined_warms_up_with_one_forward_more) {
  const Plan plan = make("combined-1f1b", {.stages = 2, .chunks = 2, .microbatches = 4});
  BOOST_TEST(to_csv(plan) ==
             "0F0,0F1,2F0,2F1,0F2,(0F3;2B0),(2F2;2B1),(2F3;0B0),0B1,2B2,2B3,0B2,0B3\n"
             "1F0,1F1,3F0,(3F1;3B0),(1F2;3B1),(1F3;1B0),(3F2;1B1),(3F3;3B2),3B3,1B2,1B3\n");
}

BOOST_AUTO_TEST_SUITE_END()
