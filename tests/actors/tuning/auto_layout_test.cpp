#include "actors/tuning/auto_layout.h"

#include <boost/test/unit_test.hpp>
#include <regex>
#include <set>

#include "actors/topology/scale.h"
#include "actors/topology/schedule_kinds.h"
#include "tests/support/layer_model.h"
#include "tests/support/traced_steps.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(auto_layout_test)

namespace {

/// Steps that a measurement takes, and steps until a clear gain or loss is known; the first step of
/// each does not count.
constexpr int kMeasured = 1 + static_cast<int>(StepMeter::kSteps);
constexpr int kCompared = 1 + 6;

/// A run that is measured step by step, whatever AutoLayout advises.
class Run {
 public:
  Run(const RunSpec& spec, const LayerTimes& times)
      : spec_(spec),
        times_(times),
        mind_(spec, [](const ClusterShape&, const ClusterShape&) { return true; }) {
    begin(first_shape(spec));
  }
  void begin(const ClusterShape& shape) {
    configuration_ = configuration_of(shape, configuration_.number + 1);
    mind_.begin(configuration_);
  }
  const ClusterShape& shape() const { return configuration_.shape; }
  std::int64_t step() const { return step_; }
  bool measures() const { return mind_.measures(); }
  double last_step_s() const { return last_step_s_; }
  /// Makes steps take `seconds` longer than their actions from now on.
  void slow_down(double seconds) { beyond_ = seconds; }
  /// Runs at most `limit` steps until there is advice.
  std::optional<AutoLayout::Advice> advice(int limit) {
    for (int i = 0; i < limit; ++i) {
      const bool traces = mind_.measures();
      const auto costs = costs_of(configuration_.shape, times_);
      RunSpec changed = spec_;
      changed.schedule = configuration_.shape.schedule;
      ++step_;
      last_step_s_ = schedules::simulate(make_plan(changed), costs)->wall + beyond_;
      auto advice = mind_.stepped(configuration_.number, step_, last_step_s_);
      if (traces)
        for (const auto& actions : test::traces_of(spec_, configuration_, step_, costs))
          if (!advice) advice = mind_.traced(actions);
      if (advice) return advice;
    }
    return std::nullopt;
  }

 private:
  RunSpec spec_;
  LayerTimes times_;
  AutoLayout mind_;
  double last_step_s_ = 0;
  Configuration configuration_;
  std::int64_t step_ = 0;
  double beyond_ = 2;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_heavy_head_moves_layers_once_and_the_gain_is_compared) {
  for (const auto& [kind, pp, chunks] :
       {std::tuple{"1f1b", 2, 1}, {"zb-h1", 2, 1}, {"interleaved", 2, 2}, {"dualpipe", 4, 2}}) {
    const RunSpec spec = spec_of(kind, pp, chunks, 8);
    Run run(spec, uneven(pp));
    BOOST_TEST(run.measures());
    BOOST_TEST(!run.advice(kMeasured - 1));
    const auto advice = run.advice(1);
    BOOST_REQUIRE(advice.has_value());
    BOOST_REQUIRE(advice->order.has_value());
    BOOST_TEST(advice->text.find("gain") != std::string::npos, advice->text);
    BOOST_TEST(!run.measures());
    run.begin(scaled(spec, run.shape(), *advice->order));
    const auto verdict = run.advice(kCompared);
    BOOST_REQUIRE(verdict.has_value());
    BOOST_TEST(!verdict->order.has_value());
    std::smatch gain;
    BOOST_REQUIRE_MESSAGE(
        std::regex_search(verdict->text, gain, std::regex("measured gain ([0-9.]+) %")),
        verdict->text);
    BOOST_TEST(std::stod(gain[1]) > 5);
    // There is no new measurement before ten steps have passed, and then one advice that there is
    // nothing to gain.
    BOOST_TEST(!run.advice(2));
    BOOST_TEST(!run.measures());
    const auto stays = run.advice(2 + kMeasured);
    BOOST_REQUIRE(stays.has_value());
    BOOST_TEST(!stays->order.has_value());
    BOOST_TEST(run.step() >= 2 * kMeasured + 9);
    BOOST_TEST(stays->text.find("stays with") != std::string::npos, stays->text);
    BOOST_TEST(!run.advice(30));
  }
}

BOOST_AUTO_TEST_CASE(a_move_that_made_steps_longer_is_taken_back_for_good) {
  const RunSpec spec = spec_of("1f1b", 2, 1, 6);
  Run run(spec, uneven(2));
  const ClusterShape old = run.shape();
  std::set<std::vector<int>> tried;
  while (true) {
    const auto move = run.advice(30);
    BOOST_REQUIRE(move.has_value());
    if (!move->order) {
      BOOST_TEST(move->text.find("stays with 3,3") != std::string::npos, move->text);
      break;
    }
    const ClusterShape next = scaled(spec, old, *move->order);
    BOOST_TEST(tried.insert(layers_of(next.layout)).second, move->text);
    run.begin(next);
    run.slow_down(1000);
    const auto verdict = run.advice(kCompared);
    BOOST_REQUIRE(verdict.has_value());
    BOOST_TEST(verdict->text.find("goes back to 3,3") != std::string::npos, verdict->text);
    BOOST_REQUIRE(verdict->order.has_value());
    BOOST_TEST((scaled(spec, next, *verdict->order) == old));
    run.begin(old);
    run.slow_down(2);
  }
  BOOST_TEST(!tried.empty());
  BOOST_TEST(!run.advice(30));
}

BOOST_AUTO_TEST_CASE(a_move_is_not_taken_back_for_a_slow_step) {
  const RunSpec spec = spec_of("1f1b", 2, 1, 6);
  Run run(spec, uneven(2));
  const auto move = run.advice(kMeasured);
  BOOST_REQUIRE((move && move->order));
  run.begin(scaled(spec, run.shape(), *move->order));
  BOOST_TEST(!run.advice(2));
  run.slow_down(1000);
  BOOST_TEST(!run.advice(1));
  run.slow_down(0);
  const auto verdict = run.advice(kCompared - 3);
  BOOST_REQUIRE(verdict.has_value());
  BOOST_TEST(verdict->text.find("faster with 95 % confidence") != std::string::npos, verdict->text);
  BOOST_TEST(!verdict->order.has_value());
}

BOOST_AUTO_TEST_CASE(nothing_is_measured_while_a_move_is_compared) {
  const RunSpec spec = spec_of("1f1b", 2, 1, 6);
  Run run(spec, uneven(2));
  run.slow_down(0);
  const auto move = run.advice(kMeasured);
  BOOST_REQUIRE((move && move->order));
  const double old_step_s = run.last_step_s();
  run.begin(scaled(spec, run.shape(), *move->order));
  BOOST_TEST(!run.advice(1));
  const double lost = old_step_s - run.last_step_s();  // the gain, which slow_down() takes away
  std::optional<AutoLayout::Advice> verdict;
  for (std::size_t step = 0; step < GainCheck::kMostSteps; ++step) {
    BOOST_TEST(!verdict.has_value(), verdict->text);
    run.slow_down(lost + (step % 2 == 0 ? 0.1 : -0.1));
    verdict = run.advice(1);
  }
  BOOST_REQUIRE((verdict && verdict->order));
  BOOST_TEST(verdict->text.find("not shown to be faster") != std::string::npos, verdict->text);
}

BOOST_AUTO_TEST_CASE(a_loss_before_an_order_is_carried_out_keeps_the_promise) {
  const RunSpec spec = spec_of("1f1b", 2, 1, 6);
  Run run(spec, uneven(2));
  const auto advice = run.advice(kMeasured);
  BOOST_REQUIRE((advice && advice->order));
  run.begin(run.shape());
  BOOST_TEST(!run.advice(1));
  run.begin(scaled(spec, run.shape(), *advice->order));
  const auto verdict = run.advice(kCompared);
  BOOST_REQUIRE(verdict.has_value());
  BOOST_TEST(verdict->text.find("measured gain") != std::string::npos, verdict->text);
}

BOOST_AUTO_TEST_CASE(there_is_nothing_to_measure_where_there_is_no_choice) {
  RunSpec off = spec_of("1f1b", 2, 1, 6);
  off.auto_layout.on = false;
  for (const RunSpec& spec :
       {off, spec_of("1f1b", 1, 1, 6), spec_of("1f1b", 3, 1, 3), spec_of(kAutoSchedule, 2, 1, 6)}) {
    Run run(spec, uneven(spec.mesh.pp));
    BOOST_TEST(!run.measures());
    BOOST_TEST(!run.advice(20));
  }
}

BOOST_AUTO_TEST_CASE(a_loss_while_it_measures_only_begins_that_anew) {
  const RunSpec spec = spec_of("1f1b", 2, 1, 6);
  Run run(spec, uneven(2));
  BOOST_TEST(!run.advice(3));
  run.begin(run.shape());
  BOOST_TEST(!run.advice(kMeasured - 1));
  BOOST_TEST(run.advice(1).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
