#include "schedules/analysis/simulate.h"

#include <algorithm>
#include <tuple>

#include "tests/schedules/orders.h"

BOOST_AUTO_TEST_SUITE(simulate_test)

using namespace troupe::schedules;
namespace tt = boost::test_tools;

namespace {

Simulation simulated(std::string_view kind, const ScheduleShape& shape, const StageCosts& costs,
                     double hop = 0) {
  const auto out = simulate(make(kind, shape), {.stages = {costs}, .hop = hop});
  BOOST_REQUIRE(out.has_value());
  return *out;
}

/// Costs by which an action of a chunk takes f, i or w, so that a stage of v chunks takes v times
/// as much.
StageCosts per_chunk(const ScheduleShape& shape, double f, double i, double w) {
  const double v = shape.chunks;
  return {.forward = v * f, .input_gradient = v * i, .weight_gradient = v * w};
}

constexpr StageCosts kUnit{.forward = 1, .input_gradient = 1, .weight_gradient = 1};
constexpr StageCosts kBackwardIsOneSlot{
    .forward = 1, .input_gradient = 0.5, .weight_gradient = 0.5};

}  // namespace

BOOST_AUTO_TEST_CASE(a_forward_and_a_backward_by_hand) {
  // 0F0 0..1, 1F0 1.5..2.5, 1B0 2.5..4.5, 0B0 5..7.
  const auto out = simulate(plan_of("0F0,0B0\n1F0,1B0\n"), {.stages = {kUnit}, .hop = 0.5});
  BOOST_REQUIRE(out.has_value());
  BOOST_TEST(out->times[0][1].start == 5);
  BOOST_TEST(out->times[0][1].end == 7);
  BOOST_TEST(out->times[1][0].start == 1.5);
  BOOST_TEST(out->times[1][1].start == 2.5);
  BOOST_TEST(out->wall == 7);
  BOOST_TEST(out->span == 7);
  BOOST_TEST(out->busy == std::vector({3.0, 3.0}), tt::per_element());
  BOOST_TEST(out->idle == std::vector({4.0, 4.0}), tt::per_element());
  BOOST_TEST(out->bubble_rate == 1 - 3.0 / 7, tt::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(stages_differ_in_cost_and_a_rank_reaches_itself_without_a_hop) {
  const Costs costs{.stages = {{.forward = 2, .input_gradient = 4, .weight_gradient = 2},
                               {.forward = 10, .input_gradient = 1, .weight_gradient = 1}},
                    .hop = 100};
  const auto two = simulate(plan_of("0F0,0B0\n1F0,1B0\n"), costs);
  BOOST_TEST(two->wall == 2 + 100 + 10 + 2 + 100 + 6);
  BOOST_TEST(two->span == two->wall);
  const auto one = simulate(plan_of("0F0,1F0,1I0,1W0,0I0,0W0"), {.stages = {kUnit}, .hop = 100});
  BOOST_TEST(one->wall == 3);
}

BOOST_AUTO_TEST_CASE(the_weight_gradient_runs_while_the_input_gradient_travels) {
  const auto out = simulate(plan_of("0F0,0I0,0W0\n1F0,1I0,1W0\n"), {.stages = {kUnit}, .hop = 1});
  BOOST_TEST(out->times[1][2].end == 5);
  BOOST_TEST(out->times[0][1].start == 5);
  BOOST_TEST(out->wall == 7);
}

BOOST_AUTO_TEST_CASE(idle_time_has_causes) {
  // 0F0 0..1, 1F0 1.5..2.5, 1B0 2.5..4.5, 0B0 5..7.
  const auto out = simulate(plan_of("0F0,0B0\n1F0,1B0\n"), {.stages = {kUnit}, .hop = 0.5});
  BOOST_TEST(out->causes[0].warm_up == 0);
  BOOST_TEST(out->causes[0].waiting.at(1) == 3.5);
  BOOST_TEST(out->causes[0].communication == 0.5);
  BOOST_TEST(out->causes[0].cool_down == 0);
  BOOST_TEST(out->causes[1].warm_up == 1.5);
  BOOST_TEST(out->causes[1].waiting.empty());
  BOOST_TEST(out->causes[1].cool_down == 2.5);
}

BOOST_AUTO_TEST_CASE(a_pair_waits_for_both_inputs_and_ends_at_once) {
  StageCosts cost = kUnit;
  cost.pair = 2.5;
  // 0F0 0..1, 0F1 1..2, 1F0 1..2, 1F1 waits for nothing: 2..3 alone; (1F1;1B0) 2..4.5.
  const auto out = simulate(plan_of("0F0,0F1,0B0,0B1\n1F0,(1F1;1B0),1B1\n"), {.stages = {cost}});
  BOOST_REQUIRE(out.has_value());
  BOOST_TEST(out->times[1][1].start == 2);
  BOOST_TEST(out->times[1][1].end == 4.5);
  BOOST_TEST(out->times[1][2].start == 2);
  BOOST_TEST(out->times[1][2].end == 4.5);
  BOOST_TEST(out->times[1][3].end == 6.5);
  BOOST_TEST(out->times[0][2].start == 4.5);
  BOOST_TEST(out->busy[1] == 1 + 2.5 + 2);
  BOOST_TEST(out->wall == 8.5);
  BOOST_TEST(out->bubble_rate == 1 - 6 / 8.5, tt::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(a_pair_whose_parts_need_each_other_never_starts) {
  // 1F1 needs 0F1, which is paired with 0B0, which needs 1B0, which is paired with 1F1.
  BOOST_TEST(!simulate(plan_of("0F0,(0F1;0B0),0B1\n1F0,(1F1;1B0),1B1\n"), Costs{}).has_value());
}

BOOST_AUTO_TEST_CASE(a_pair_hides_collectives) {
  StageCosts cost = kUnit;
  cost.collectives = {.forward = 0.5, .input_gradient = 0.25};
  // Alone: F 1.5, B 2.25. The pair takes 3, one after the other 1.5 and then 1.5.
  for (const Pairs pairs : {Pairs::together, Pairs::when_ready}) {
    const auto out = simulate(plan_of("0F0,(0F1;0B0),0B1\n"), {.stages = {cost}, .pairs = pairs});
    BOOST_TEST(out->wall == 1.5 + 3 + 2.25);
    BOOST_TEST(out->busy[0] == out->wall);
    BOOST_TEST(out->collective[0] == 0.75);
    const bool together = pairs == Pairs::together;
    BOOST_TEST(out->times[0][1].end == (together ? 4.5 : 3));
    BOOST_TEST(out->times[0][2].start == (together ? 1.5 : 3));
    BOOST_TEST(out->times[0][2].end == 4.5);
  }
  const auto apart = simulate(plan_of("0F0,0F1,0B0,0B1\n"), {.stages = {cost}});
  BOOST_TEST(apart->wall == 2 * (1.5 + 2.25));
  BOOST_TEST(apart->collective[0] == 1.5);
}

BOOST_AUTO_TEST_CASE(a_part_of_a_pair_that_starts_late_hides_nothing) {
  StageCosts cost = kUnit;
  cost.collectives = {.forward = 0.5, .input_gradient = 0.25};
  // 0F0 0..1.5, 0F1 1.5..3; 1B0 ends at 1.5 + 1.5 + 2.25 = 5.25, when 0B0 starts.
  const auto out = simulate(plan_of("0F0,(0F1;0B0),0B1\n1F0,1B0,1F1,1B1\n"),
                            {.stages = {cost}, .pairs = Pairs::when_ready});
  BOOST_TEST(out->times[0][1].end == 3);
  BOOST_TEST(out->times[0][2].start == 5.25);
  BOOST_TEST(out->times[0][2].end == 7.5);
}

BOOST_AUTO_TEST_CASE(messages_share_a_link_one_by_one) {
  // 0F0 ends at 1, 0F1 at 2; each takes 3 on the link and 0.5 more to arrive.
  const auto out =
      simulate(plan_of("0F0,0F1\n1F0,1F1\n"), {.stages = {kUnit}, .hop = 0.5, .link = 3});
  BOOST_TEST(out->times[1][0].start == 4.5);
  BOOST_TEST(out->times[1][1].start == 7.5);
  BOOST_TEST(out->times[0][1].start == 1);
}

BOOST_AUTO_TEST_CASE(blocking_sends_hold_the_sender) {
  const auto out = simulate(plan_of("0F0,0F1\n1F0,1F1\n"),
                            {.stages = {kUnit}, .hop = 0.5, .sends = Sends::blocking});
  BOOST_TEST(out->times[0][1].start == 1.5);
  BOOST_TEST(out->causes[0].communication == 1);
  BOOST_TEST(out->wall == 4);
}

BOOST_AUTO_TEST_CASE(a_step_pays_the_wall_time_or_without_a_barrier_the_span) {
  const Plan plan = make("zb-h2", {.stages = 4, .microbatches = 8});
  const auto global = simulate(plan, {.stages = {kUnit}, .optimizer = 5});
  BOOST_TEST(global->wall == 27);
  BOOST_TEST(global->span == 24);
  BOOST_TEST(global->step == 32);
  const auto none = simulate(plan, {.stages = {kUnit}, .optimizer = 5, .barrier = Barrier::none});
  BOOST_TEST(none->step == 29);
}

BOOST_AUTO_TEST_CASE(steps_that_begin_ahead_of_validation_lie_in_one_another) {
  const auto step_of = [](const char* kind, Barrier barrier, double hop) {
    const Plan plan = make(kind, {.stages = 4, .microbatches = 8});
    return simulate(plan, {.stages = {kUnit}, .hop = hop, .optimizer = 5, .barrier = barrier})
        ->step;
  };
  // The next step's forwards fill the parallelogram: nothing is idle any more.
  BOOST_TEST(step_of("zb-h2", Barrier::ahead, 0) == 29, tt::tolerance(1e-12));
  // Ranks that end at one time gain nothing but for the last ones' idle beginning.
  BOOST_TEST(step_of("gpipe", Barrier::ahead, 0) <= step_of("gpipe", Barrier::global, 0));
  BOOST_TEST(step_of("zb-h2", Barrier::ahead, 0.25) < step_of("zb-h2", Barrier::global, 0.25));
}

BOOST_AUTO_TEST_CASE(a_rank_that_may_run_nothing_ahead_waits_for_all_others) {
  // Each rank keeps its only forward back: steps follow each other as with a barrier.
  const Plan plan = plan_of("0F0,0B0\n1F0,1B0\n");
  const auto ahead = simulate(plan, {.stages = {kUnit}, .optimizer = 5, .barrier = Barrier::ahead});
  BOOST_TEST(ahead->step == 6 + 5, tt::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(times_divide_by_their_units) {
  const auto out = simulate(plan_of("0F0,0B0\n1F0,1B0\n"), {.stages = {kUnit}, .hop = 0.5});
  const Simulation half = divided(*out, 2);
  BOOST_TEST(half.wall == 3.5);
  BOOST_TEST(half.span == 3.5);
  BOOST_TEST(half.step == 3.5);
  BOOST_TEST(half.busy[0] == 1.5);
  BOOST_TEST(half.idle[0] == 2);
  BOOST_TEST(half.causes[0].waiting.at(1) == 1.75);
  BOOST_TEST(half.causes[1].warm_up == 0.75);
  BOOST_TEST(half.times[0][1].start == 2.5);
  BOOST_TEST(half.bubble_rate == out->bubble_rate);
}

BOOST_AUTO_TEST_CASE(a_circle_of_waits_has_no_times) {
  BOOST_TEST(!simulate(plan_of("0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n"), Costs{}).has_value());
}

BOOST_AUTO_TEST_CASE(wall_times_of_the_reference) {
  struct Row {
    std::string_view kind;
    ScheduleShape shape;
    double unit, hop_quarter, f2_i3_w1;  ///< 0 if not given
  };
  for (const Row& row :
       {Row{"gpipe", {2, 1, 4}, 15, 0, 0}, Row{"gpipe", {4, 1, 8}, 33, 34.5, 66},
        Row{"1f1b", {2, 1, 4}, 15, 0, 0}, Row{"1f1b", {4, 1, 8}, 33, 37, 66},
        Row{"interleaved", {2, 2, 4}, 27, 0, 0}, Row{"interleaved", {4, 2, 8}, 57, 60.5, 114},
        Row{"interleaved", {4, 4, 8}, 105, 0, 0}}) {
    BOOST_TEST_CONTEXT(row.kind << " of " << row.shape.stages) {
      const StageCosts unit = per_chunk(row.shape, 1, 1, 1);
      BOOST_TEST(simulated(row.kind, row.shape, unit).wall == row.unit);
      if (row.hop_quarter == 0) continue;
      BOOST_TEST(simulated(row.kind, row.shape, unit, 0.25).wall == row.hop_quarter);
      const StageCosts uneven = per_chunk(row.shape, 2, 3, 1);
      BOOST_TEST(simulated(row.kind, row.shape, uneven).wall == row.f2_i3_w1);
    }
  }
}

BOOST_AUTO_TEST_CASE(slots_where_a_backward_takes_one) {
  for (const auto& [kind, p, v, m, slots] :
       {std::tuple("1f1b", 4, 1, 8, 22), std::tuple("1f1b", 4, 1, 2, 10),
        std::tuple("1f1b", 8, 1, 3, 20), std::tuple("gpipe", 4, 1, 8, 22),
        std::tuple("interleaved", 2, 2, 4, 18), std::tuple("interleaved", 4, 2, 8, 38),
        std::tuple("interleaved", 4, 4, 16, 134)}) {
    const ScheduleShape shape{.stages = p, .chunks = v, .microbatches = m};
    BOOST_TEST_CONTEXT(kind << " " << p << " " << v << " " << m) {
      BOOST_TEST(simulated(kind, shape, per_chunk(shape, 1, 0.5, 0.5)).wall == slots);
    }
  }
}

BOOST_AUTO_TEST_CASE(peak_activations_of_the_reference) {
  const auto peaks = [](std::string_view kind, int p, int v, int m) {
    return simulated(kind, {.stages = p, .chunks = v, .microbatches = m}, kUnit).peak_activations;
  };
  BOOST_TEST(peaks("gpipe", 4, 1, 8) == std::vector({8, 8, 8, 8}), tt::per_element());
  BOOST_TEST(peaks("1f1b", 4, 1, 8) == std::vector({4, 3, 2, 1}), tt::per_element());
  BOOST_TEST(peaks("1f1b", 4, 1, 2) == std::vector({2, 2, 2, 1}), tt::per_element());
  BOOST_TEST(peaks("interleaved", 2, 2, 4) == std::vector({5, 3}), tt::per_element());
  BOOST_TEST(peaks("interleaved", 4, 2, 8) == std::vector({11, 9, 7, 5}), tt::per_element());
  BOOST_TEST(peaks("interleaved", 4, 4, 16) == std::vector({19, 17, 15, 13}), tt::per_element());
  BOOST_TEST(peaks("interleaved", 4, 4, 8) == std::vector({19, 17, 15, 13}), tt::per_element());
}

BOOST_AUTO_TEST_CASE(one_rank_has_no_bubble) {
  for (const std::string_view kind : {"gpipe", "1f1b"}) {
    const auto out = simulated(kind, {.stages = 1, .microbatches = 5}, kBackwardIsOneSlot, 7);
    BOOST_TEST(out.wall == 10);
    BOOST_TEST(out.bubble_rate == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_thousand_ranks) {
  const auto out = simulated("1f1b", {.stages = 1000, .microbatches = 500}, kUnit, 0);
  BOOST_TEST(out.wall == 3.0 * (500 + 999));
  BOOST_TEST(out.peak_activations.front() == 500);
  BOOST_TEST(out.peak_activations.back() == 1);
}

BOOST_AUTO_TEST_SUITE_END()
