#include "actors/tuning/auto_layout.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <numeric>
#include <random>
#include <regex>
#include <set>

#include "actors/topology/scale.h"
#include "actors/topology/schedule_kinds.h"
#include "actors/tuning/layout_choice.h"
#include "schedules/generators.h"
#include "tests/support/run_specs.h"
#include "tests/support/seed.h"
#include "tests/support/traced_steps.h"

namespace troupe::actors {
namespace {

using schedules::Op;
using Split = std::vector<int>;

RunSpec spec_of(const std::string& kind, int pp, int chunks, int layers) {
  RunSpec spec = test::small_run(pp);
  spec.model.num_hidden_layers = layers;
  spec.schedule = {.kind = kind, .chunks = chunks};
  spec.auto_layout = {.on = true, .gain = 0.05, .steps = 10};
  return spec;
}

ActionTimes times_of(double f, double i, double w) {
  ActionTimes times;
  times.of(Op::F) = f;
  times.of(Op::I) = i;
  times.of(Op::W) = w;
  times.of(Op::B) = i + w;
  return times;
}

/// Times of the parts of a model, of which those of its stages' actions are sums.
LayerTimes uneven(int stages) {
  return {.layer = std::vector<ActionTimes>(static_cast<std::size_t>(stages), times_of(1, 1, 1)),
          .embedding = times_of(0.5, 0, 1),
          .head = times_of(3, 3, 2)};
}

/// What a meter measures on a model with these times.
Measured measured_of(const Layout& layout, const LayerTimes& times, double step_s = 0) {
  Measured measured{.chunks = {}, .hop_s = 0.125, .step_s = step_s};
  for (std::size_t i = 0; i < layout.chunks.size(); ++i) {
    const auto& chunk = layout.chunks[i];
    ActionTimes sum;
    for (std::size_t op = 0; op < sum.seconds.size(); ++op)
      sum.seconds[op] = times.layer[static_cast<std::size_t>(chunk.stage)].seconds[op] *
                            (chunk.end_layer - chunk.first_layer) +
                        (layout.is_first(i) ? times.embedding.seconds[op] : 0) +
                        (layout.is_last(i) ? times.head.seconds[op] : 0);
    measured.chunks.push_back(sum);
  }
  return measured;
}

/// Calls `visit` with every split of the layers into chunks of at least one.
void every_split(int layers, int chunks, Split& split,
                 const std::function<void(const Split&)>& visit) {
  if (chunks == 1) {
    split.push_back(layers);
    visit(split);
    split.pop_back();
    return;
  }
  for (int first = 1; first <= layers - chunks + 1; ++first) {
    split.push_back(first);
    every_split(layers - first, chunks - 1, split, visit);
    split.pop_back();
  }
}

double fastest(const RunSpec& spec, const ClusterShape& shape, const Measured& measured) {
  const PaperStep step(spec, shape, layer_times(shape.layout, measured), measured.hop_s);
  double best = step.simulated(shape.layout);
  Split split;
  every_split(static_cast<int>(spec.model.num_hidden_layers), step.plan().chunks_per_copy(), split,
              [&](const Split& layers) {
                best = std::min(best, step.simulated(layout_of(layers, step.plan().rank_of_chunk)));
              });
  return best;
}

bool anything_fits(const ClusterShape&) {
  return true;
}

Epoch epoch_of(const ClusterShape& shape, std::uint32_t number) {
  return {.run = 1, .number = number, .shape = shape, .members = {}};
}

schedules::Costs costs_of(const ClusterShape& shape, const LayerTimes& times) {
  schedules::Costs costs;
  costs.hop = 0.125;
  for (const ActionTimes& chunk : measured_of(shape.layout, times).chunks)
    costs.chunks.push_back({.forward = chunk.of(Op::F),
                            .input_gradient = chunk.of(Op::I),
                            .weight_gradient = chunk.of(Op::W),
                            .backward = chunk.of(Op::B),
                            .pair = std::nullopt});
  return costs;
}

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
    epoch_ = epoch_of(shape, epoch_.number + 1);
    mind_.begin(epoch_);
  }
  const ClusterShape& shape() const { return epoch_.shape; }
  std::int64_t step() const { return step_; }
  bool measures() const { return mind_.measures(); }
  double last_step_s() const { return last_step_s_; }
  /// Makes steps take `seconds` longer than their actions from now on.
  void slow_down(double seconds) { beyond_ = seconds; }
  /// Runs at most `limit` steps until there is advice.
  std::optional<AutoLayout::Advice> advice(int limit) {
    for (int i = 0; i < limit; ++i) {
      const bool traces = mind_.measures();
      const auto costs = costs_of(epoch_.shape, times_);
      RunSpec changed = spec_;
      changed.schedule = epoch_.shape.schedule;
      ++step_;
      last_step_s_ = schedules::simulate(make_plan(changed), costs)->wall + beyond_;
      auto advice = mind_.stepped(epoch_.number, step_, last_step_s_);
      if (traces)
        for (const auto& actions : test::traces_of(spec_, epoch_, step_, costs))
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
  Epoch epoch_;
  std::int64_t step_ = 0;
  double beyond_ = 2;
};

}  // namespace

BOOST_AUTO_TEST_CASE(layer_embedding_and_head_are_told_apart_where_a_chunk_has_neither) {
  for (const auto& [kind, pp, chunks, split] : {std::tuple{"1f1b", 3, 1, ""},
                                                {"1f1b", 4, 1, ""},
                                                {"interleaved", 2, 2, ""},
                                                {"zb-v", 2, 2, ""},
                                                {"dualpipe", 4, 2, ""},
                                                {"1f1b", 3, 1, "E|t*9|L"},
                                                {"1f1b", 4, 1, "0,0,9,0"},
                                                {"dualpipe", 4, 2, "0,4,5,0"}}) {
    RunSpec spec = spec_of(kind, pp, chunks, 9);
    spec.layout = split;
    const Layout layout = first_shape(spec).layout;
    const LayerTimes want = uneven(pp);
    const LayerTimes got = layer_times(layout, measured_of(layout, want));
    for (std::size_t op = 0; op < got.head.seconds.size(); ++op) {
      const auto close = boost::test_tools::tolerance(1e-12);
      BOOST_TEST(got.head.seconds[op] == want.head.seconds[op], close);
      BOOST_TEST(got.embedding.seconds[op] == want.embedding.seconds[op], close);
      for (const ActionTimes& layer : got.layer) BOOST_TEST(layer.seconds[op] == 1 + (op == 1));
    }
  }
}

/// The actions of a pair run at the same time, and each counts with the time that it takes alone.
BOOST_AUTO_TEST_CASE(pairs_are_measured_like_actions_that_run_alone) {
  for (const auto& [kind, chunks] :
       {std::pair{"1f1b", 1}, {"combined-1f1b", 2}, {"dualpipe-v", 2}}) {
    const RunSpec spec = spec_of(kind, 2, chunks, 8);
    const ClusterShape shape = first_shape(spec);
    const auto costs = costs_of(shape, uneven(2));
    StepMeter meter(shape);
    for (int step = 1; !meter.result(); ++step) {
      for (const auto& actions : test::traces_of(spec, epoch_of(shape, 1), step, costs))
        meter.add(actions);
      meter.add(step, 1.0);
    }
    const auto measured = meter.result()->chunks;
    for (std::size_t chunk = 0; chunk < measured.size(); ++chunk) {
      BOOST_TEST(measured[chunk].of(Op::F) == costs.chunks[chunk].forward);
      BOOST_TEST(measured[chunk].of(Op::B) == *costs.chunks[chunk].backward);
    }
  }
}

BOOST_AUTO_TEST_CASE(of_two_stages_the_first_tells_what_a_layer_takes) {
  const RunSpec spec = spec_of("1f1b", 2, 1, 6);
  const Layout layout = first_shape(spec).layout;
  LayerTimes times = uneven(2);
  times.embedding = {};
  const LayerTimes got = layer_times(layout, measured_of(layout, times));
  BOOST_TEST(got.layer[1].of(Op::F) == 1);
  BOOST_TEST(got.head.of(Op::F) == 3);
  BOOST_TEST(got.embedding.of(Op::F) == 0);
}

BOOST_AUTO_TEST_CASE(no_split_is_faster_than_the_chosen_one) {
  const std::uint64_t seed = test::fresh_seed();
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> some(0.5, 2), much(0, 8);
  const auto any = [&](auto& amount) {
    return times_of(amount(random), amount(random), amount(random));
  };
  int tried = 0, optimal = 0;
  for (int round = 0; round < 50; ++round)
    for (const auto& [kind, pp, chunks] : {std::tuple{"1f1b", 2, 1},
                                           {"1f1b", 4, 1},
                                           {"gpipe", 3, 1},
                                           {"zb-h1", 3, 1},
                                           {"interleaved", 2, 2},
                                           {"zb-v", 2, 2},
                                           {"dualpipe", 2, 2},
                                           {"chimera", 4, 2}}) {
      const RunSpec spec = spec_of(kind, pp, chunks, 10);
      LayerTimes times{.layer = {}, .embedding = any(some), .head = any(much)};
      for (int stage = 0; stage < pp; ++stage) times.layer.push_back(any(some));
      const ClusterShape shape = first_shape(spec);
      const Measured measured = measured_of(shape.layout, times);
      const LayoutChoice choice = choose_layout(spec, shape, measured, anything_fits);
      const Split split = layers_of(choice.best.shape.layout);
      BOOST_TEST(std::accumulate(split.begin(), split.end(), 0) == 10);
      BOOST_TEST(std::ranges::min(split) >= 1);
      const double best = fastest(spec, shape, measured);
      BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed << " " << kind)
      BOOST_TEST(choice.best.step_s <= 1.03 * best);
      ++tried;
      optimal += choice.best.step_s <= (1 + 1e-9) * best;
    }
  BOOST_TEST_MESSAGE(optimal << " of " << tried << " are the fastest of all");
  BOOST_TEST(optimal >= tried * 9 / 10);
}

BOOST_AUTO_TEST_CASE(layers_move_beside_chunks_that_have_none) {
  RunSpec spec = spec_of("1f1b", 4, 1, 9);
  spec.layout = "0,2,7,0";
  const ClusterShape shape = first_shape(spec);
  const LayoutChoice choice =
      choose_layout(spec, shape, measured_of(shape.layout, uneven(4)), anything_fits);
  const Split split = layers_of(choice.best.shape.layout);
  BOOST_TEST(std::accumulate(split.begin(), split.end(), 0) == 9);
  BOOST_TEST(choice.best.step_s < choice.now.step_s);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_not_chosen) {
  const RunSpec spec = spec_of("1f1b", 2, 1, 6);
  const ClusterShape shape = first_shape(spec);
  const Measured measured = measured_of(shape.layout, uneven(2));
  const auto best = [&](const std::function<bool(const ClusterShape&)>& fits) {
    return layers_of(choose_layout(spec, shape, measured, fits).best.shape.layout);
  };
  BOOST_TEST((best(anything_fits) != Split{3, 3}));
  BOOST_TEST((best([](const ClusterShape&) { return false; }) == Split{3, 3}));
}

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
  std::set<Split> tried;
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

}  // namespace troupe::actors
