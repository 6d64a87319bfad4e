#include "actors/tuning/auto_schedule.h"

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <map>

#include "actors/topology/scale.h"
#include "actors/topology/schedule_kinds.h"
#include "actors/tuning/layer_times.h"
#include "actors/tuning/schedule_choice.h"
#include "schedules/analysis/validate.h"
#include "schedules/generators/generators.h"
#include "tests/support/expect_error.h"
#include "tests/support/run_specs.h"
#include "tests/support/traced_steps.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(auto_schedule_test)

namespace {

using schedules::Op;
using test::traces_of;

/// Steps that a measurement takes; the first step does not count.
constexpr int kMeasured = 1 + static_cast<int>(StepMeter::kSteps);

/// A run whose stages have two layers each, and 8 microbatches.
RunSpec spec_of(int pp, int dp = 1) {
  RunSpec spec = test::small_run(pp, dp);
  spec.model.num_hidden_layers = 2 * pp;
  spec.batch.global = 16 * dp;
  spec.schedule = {.kind = kAutoSchedule};
  return spec;
}

Configuration configuration_with_shape(const ClusterShape& shape, std::uint32_t number) {
  return {.run = 1, .number = number, .shape = shape, .members = {}};
}

schedules::Costs equal_costs() {
  schedules::Costs costs;
  costs.stages = {{.forward = 1, .input_gradient = 1, .weight_gradient = 1}};
  costs.hop = 0.125;
  return costs;
}

/// Runs steps 5, 6, ... until there is advice, but at most `limit` steps.
std::optional<AutoSchedule::Advice> advice_of(AutoSchedule& mind, const RunSpec& spec,
                                              const Configuration& configuration, int limit,
                                              double seconds = 40) {
  std::optional<AutoSchedule::Advice> advice;
  for (std::int64_t step = 5; step < 5 + limit && !advice; ++step) {
    advice = mind.stepped(configuration.number, step, seconds);
    for (const TracedActions& actions : traces_of(spec, configuration, step, equal_costs()))
      if (!advice) advice = mind.traced(actions);
  }
  return advice;
}

Measured measured_of(const RunSpec& spec, double step_s = 40) {
  const Configuration configuration = configuration_with_shape(first_shape(spec), 1);
  StepMeter meter(configuration.shape);
  for (std::int64_t step = 1; step <= kMeasured; ++step) {
    BOOST_TEST(!meter.result());
    meter.add(step, step == 1 ? 1000 : step_s);
    for (const auto& actions : traces_of(spec, configuration, step, equal_costs()))
      meter.add(actions);
  }
  return meter.result().value();
}

bool anything_fits(const ClusterShape&) {
  return true;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_guess_is_1f1b_with_some_backwards_in_two_parts) {
  for (int pp = 1; pp <= 4; ++pp) {
    const schedules::Plan plan = make_plan(spec_of(pp));
    BOOST_TEST(!schedules::validate(plan, schedules::Purpose::training).has_value());
    for (const auto& row : plan.actions)
      for (const Op op : {Op::B, Op::I, Op::W})
        BOOST_TEST(std::ranges::count(row, op, &schedules::Action::op) == 4);
  }
}

BOOST_AUTO_TEST_CASE(a_meter_finds_what_actions_and_hops_take) {
  for (const auto& [pp, dp] : {std::pair{1, 1}, {2, 1}, {4, 1}, {2, 2}}) {
    const Measured measured = measured_of(spec_of(pp, dp));
    BOOST_TEST(measured.chunks.size() == static_cast<std::size_t>(pp));
    for (const ActionTimes& times : measured.chunks)
      for (const auto& [op, seconds] :
           {std::pair{Op::F, 1.0}, {Op::B, 2.0}, {Op::I, 1.0}, {Op::W, 1.0}})
        BOOST_TEST(times.of(op) == seconds);
    BOOST_TEST(measured.hop_s == (pp > 1 ? 0.125 : 0));
    BOOST_TEST(measured.step_s == 40);
    BOOST_TEST(measured.first_step == 2);
    BOOST_TEST(measured.last_step == kMeasured);
  }
}

BOOST_AUTO_TEST_CASE(a_meter_compares_the_clocks_of_hosts) {
  const RunSpec spec = spec_of(4);
  const Configuration configuration = configuration_with_shape(first_shape(spec), 1);
  for (const double ahead_s : {-5000.0, 5000.0, 0.1}) {
    StepMeter meter(configuration.shape, {{0, "a"}, {1, "a"}, {2, "b"}, {3, "b"}});
    for (std::int64_t step = 1; step <= kMeasured; ++step) {
      meter.add(step, 40);
      for (TracedActions actions : traces_of(spec, configuration, step, equal_costs())) {
        for (auto& action : actions.body.actions)
          for (double* time : {&action.begin_s, &action.end_s, &action.sent_s})
            if (actions.rank >= 2) *time += 10'000 + ahead_s;
        meter.add(actions);
      }
    }
    BOOST_TEST(meter.result().value().hop_s == 0.125, boost::test_tools::tolerance(1e-6));
  }
}

BOOST_AUTO_TEST_CASE(candidates_are_every_schedule_of_one_copy_that_has_a_plan) {
  const RunSpec spec = spec_of(4);
  const auto all = candidates(spec, first_shape(spec), measured_of(spec));
  const auto has = [&](const std::string& kind) {
    return std::ranges::any_of(all,
                               [&](const Candidate& c) { return c.shape.schedule.kind == kind; });
  };
  for (const char* kind : {"1f1b", "gpipe", "zb-h1", "zb-h2", "zb-v", "interleaved", "hanayo"})
    BOOST_TEST(has(kind), kind);
  for (const char* kind : {"dualpipe", "chimera", "forward-only", "auto"})
    BOOST_TEST(!has(kind), kind);
  BOOST_TEST(std::ranges::is_sorted(all, {}, &Candidate::step_s));
  // Chunks of half a stage take half of the stage's time: interleaved shortens the bubble, gpipe
  // does not.
  const auto of = [&](const std::string& kind) {
    return std::ranges::find_if(all,
                                [&](const Candidate& c) { return c.shape.schedule.kind == kind; })
        ->step_s;
  };
  BOOST_TEST(of("zb-h1") < of("1f1b"));
  BOOST_TEST(of("interleaved") < of("1f1b"));
}

/// Both interleave two chunks; combined-1f1b has a longer warm-up, and pairs that hide collectives.
BOOST_AUTO_TEST_CASE(pairs_are_chosen_for_collectives_that_they_hide) {
  RunSpec spec = spec_of(2);
  spec.batch.global = 64;
  const auto times_of = [&](double collective_s) {
    schedules::Costs costs = equal_costs();
    costs.stages[0].collectives = {.forward = collective_s,
                                   .input_gradient = collective_s / 2,
                                   .weight_gradient = collective_s / 2};
    const Configuration configuration = configuration_with_shape(first_shape(spec), 1);
    StepMeter meter(configuration.shape);
    for (std::int64_t step = 1; step <= kMeasured; ++step) {
      meter.add(step, 400);
      for (const auto& actions : traces_of(spec, configuration, step, costs)) meter.add(actions);
    }
    const Measured measured = meter.result().value();
    BOOST_TEST(measured.chunks[0].of(Op::F) == 1);
    BOOST_TEST(measured.chunks[0].collective_of(Op::F) == collective_s);
    std::map<std::string, double> times;
    for (const Candidate& candidate : candidates(spec, first_shape(spec), measured)) {
      times[candidate.shape.schedule.kind] = candidate.step_s;
      const bool has_collectives = candidate.shape.schedule.costs.find("cF=") != std::string::npos;
      BOOST_TEST(has_collectives == (collective_s > 0), candidate.shape.schedule.costs);
    }
    return times;
  };
  auto times = times_of(0);
  BOOST_TEST(times.at("interleaved") <= times.at("combined-1f1b"));
  times = times_of(0.5);
  BOOST_TEST(times.at("combined-1f1b") < times.at("interleaved"));
}

BOOST_AUTO_TEST_CASE(what_a_step_takes_beyond_its_actions_stays) {
  const RunSpec spec = spec_of(2);
  const auto short_steps = candidates(spec, first_shape(spec), measured_of(spec, 40));
  const auto long_steps = candidates(spec, first_shape(spec), measured_of(spec, 47));
  for (std::size_t i = 0; i < short_steps.size(); ++i)
    BOOST_TEST(long_steps[i].step_s == short_steps[i].step_s + 7,
               boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(the_head_goes_with_the_last_chunk) {
  const RunSpec spec = spec_of(2);
  Measured measured = measured_of(spec);
  for (double& seconds : measured.chunks[1].seconds) seconds *= 3;
  // In a V the head is on the first stage, beside half of the layers.
  const auto all = candidates(spec, first_shape(spec), measured);
  for (const Candidate& candidate : all) {
    if (candidate.shape.schedule.kind != "zb-v") continue;
    BOOST_TEST(candidate.shape.layout.chunks.back().stage == 0);
    BOOST_TEST(candidate.step_s >= 8 * (3 + 6));  // the first stage's work
  }
}

BOOST_AUTO_TEST_CASE(searched_schedules_are_made_for_what_was_measured) {
  const RunSpec spec = spec_of(4);
  Measured measured = measured_of(spec);
  for (std::size_t i = 0; i < 4; ++i) {
    measured.chunks[i].of(Op::F) *= std::array{1.2, 0.9, 1.0, 0.8}[i];
    measured.chunks[i].of(Op::I) *= std::array{0.8, 1.1, 0.9, 1.2}[i];
  }
  const auto all = candidates(spec, first_shape(spec), measured);
  for (const Candidate& candidate : all) {
    const auto& schedule = candidate.shape.schedule;
    // Whichever schedule is chosen, the run's manifest holds the measured costs.
    BOOST_TEST(!schedule.costs.empty(), schedule.kind);
    // An order for it results in exactly this shape.
    ScaleRequest order;
    order.schedule = schedule.kind;
    order.costs = schedule.costs;
    BOOST_TEST((scaled(spec, first_shape(spec), order) == candidate.shape));
    if (schedule.kind != "1f1b") continue;
    // The costs are in nanoseconds, chunk by chunk.
    BOOST_TEST(schedule.costs.starts_with("F=1200000000:900000000:1000000000:800000000,I=8"),
               schedule.costs);
  }
}

BOOST_AUTO_TEST_CASE(other_stages_have_other_costs) {
  RunSpec spec = spec_of(4);
  spec.schedule = {.kind = "zb-1p", .chunks = 1, .csv = "", .costs = "F=1:1:1:3,I=1,W=1,hop=0.1"};
  const ClusterShape four = first_shape(spec);
  ScaleRequest order;
  order.pp = 2;
  BOOST_TEST(scaled(spec, four, order).schedule.costs.empty());
  order = {};
  order.layout = "1,2,2,3";
  BOOST_TEST(scaled(spec, four, order).schedule.costs == spec.schedule.costs);
  BOOST_TEST(shrunk(spec, four, {1})->shape.schedule.costs.empty());
  spec.mesh.pp = 2;
  test::expect_error(ErrorKind::manifest, {"4 chunks", "there are 2"}, [&] { make_plan(spec); });
}

BOOST_AUTO_TEST_CASE(the_fastest_that_fits_is_chosen_if_it_is_worth_it) {
  const RunSpec spec = spec_of(4);
  const auto all = candidates(spec, first_shape(spec), measured_of(spec));
  BOOST_TEST(choose(all, anything_fits).step_s == all.front().step_s);
  const auto small = [](const ClusterShape& shape) { return shape.schedule.kind == "zb-h1"; };
  BOOST_TEST(choose(all, small).shape.schedule.kind == "zb-h1");
  BOOST_TEST(choose(all, [](const ClusterShape&) { return false; }).shape.schedule.kind == "1f1b");
  const RunSpec one = spec_of(1);
  BOOST_TEST(choose(candidates(one, first_shape(one), measured_of(one)), anything_fits)
                 .shape.schedule.kind == "1f1b");
}

BOOST_AUTO_TEST_CASE(some_steps_are_measured_then_a_schedule_is_ordered_and_compared) {
  const RunSpec spec = spec_of(4);
  AutoSchedule mind(spec, [](const ClusterShape&, const ClusterShape&) { return true; });
  const Configuration first = configuration_with_shape(first_shape(spec), 1);
  mind.begin(first);
  BOOST_TEST(!advice_of(mind, spec, first, kMeasured - 1));
  mind.begin(first);
  const auto advice = advice_of(mind, spec, first, kMeasured);
  BOOST_REQUIRE(advice.has_value());
  BOOST_REQUIRE(advice->order.has_value());
  BOOST_TEST(!advice->order->costs.empty());
  BOOST_TEST(advice->text.find("predicted gain") != std::string::npos, advice->text);
  BOOST_TEST(!mind.measures());
  BOOST_TEST(!advice_of(mind, spec, first, 20));  // once

  const Configuration second =
      configuration_with_shape(scaled(spec, first.shape, *advice->order), 2);
  mind.begin(second);
  BOOST_TEST(mind.measures());          // because the steps that it compares with were measured
  BOOST_TEST(!mind.stepped(1, 9, 30));  // a step of the configuration before
  for (const double seconds : {1000, 30, 31, 29, 30, 30}) BOOST_TEST(!mind.stepped(2, 9, seconds));
  const auto verdict = mind.stepped(2, 10, 31);
  BOOST_REQUIRE(verdict.has_value());
  BOOST_TEST(!verdict->order.has_value());
  BOOST_TEST(verdict->text.find("measured gain 25.0 %") != std::string::npos, verdict->text);
  BOOST_TEST(verdict->text.find("faster with 95 % confidence") != std::string::npos, verdict->text);
  BOOST_TEST(!mind.measures());
  BOOST_TEST(!mind.stepped(2, 11, 29));
}

BOOST_AUTO_TEST_CASE(a_choice_that_makes_steps_no_shorter_is_taken_back_for_good) {
  for (const auto& [seconds, said] :
       {std::pair{43.0, "slower with 95 % confidence"}, {40.0, "not shown to be faster"}}) {
    const RunSpec spec = spec_of(4);
    AutoSchedule mind(spec, [](const ClusterShape&, const ClusterShape&) { return true; });
    Configuration configuration = configuration_with_shape(first_shape(spec), 1);
    mind.begin(configuration);
    const auto choice = advice_of(mind, spec, configuration, kMeasured);
    BOOST_REQUIRE((choice && choice->order && *choice->order->schedule != "1f1b"));
    configuration = configuration_with_shape(scaled(spec, configuration.shape, *choice->order), 2);
    mind.begin(configuration);
    std::optional<AutoSchedule::Advice> verdict;
    for (std::size_t step = 0; step <= GainCheck::kMostSteps && !verdict; ++step)
      verdict = mind.stepped(2, 20, seconds);
    BOOST_REQUIRE((verdict && verdict->order));
    BOOST_TEST(verdict->text.find(said) != std::string::npos, verdict->text);
    BOOST_TEST(verdict->text.find("measured gain ") != std::string::npos, verdict->text);
    BOOST_TEST(verdict->text.find("goes back to 1f1b") != std::string::npos, verdict->text);
    BOOST_TEST(*verdict->order->schedule == "1f1b");
    configuration = configuration_with_shape(scaled(spec, configuration.shape, *verdict->order), 3);
    mind.begin(configuration);
    BOOST_TEST(!mind.measures());
    // A user who asks again gets another schedule.
    configuration = configuration_with_shape(first_shape(spec), 4);
    mind.begin(configuration);
    const auto again = advice_of(mind, spec, configuration, kMeasured);
    BOOST_REQUIRE((again && again->order));
    BOOST_TEST(*again->order->schedule != *choice->order->schedule);
  }
}

BOOST_AUTO_TEST_CASE(a_change_on_the_way_begins_anew_or_ends_it) {
  const RunSpec spec = spec_of(4);
  AutoSchedule mind(spec, [](const ClusterShape&, const ClusterShape&) { return true; });
  const Configuration first = configuration_with_shape(first_shape(spec), 1);
  mind.begin(first);
  BOOST_TEST(!advice_of(mind, spec, first, 2));
  const Configuration again = configuration_with_shape(first.shape, 2);  // after a loss
  mind.begin(again);
  BOOST_TEST(!advice_of(mind, spec, again, kMeasured - 1));
  ScaleRequest gpipe;
  gpipe.schedule = "gpipe";
  mind.begin(configuration_with_shape(scaled(spec, first.shape, gpipe), 3));  // a user ordered it
  BOOST_TEST(!mind.stepped(3, 9, 1));
  for (int i = 0; i < 9; ++i) BOOST_TEST(!mind.stepped(3, 10 + i, 1));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
