#include "actors/tuning/layout_choice.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <numeric>
#include <random>
#include <tuple>

#include "schedules/generators/generators.h"
#include "tests/support/layer_model.h"
#include "tests/support/seed.h"
#include "tests/support/traced_steps.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(layout_choice_test)

namespace {

using Split = std::vector<int>;

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
  const StepSimulation step(spec, shape, layer_times(shape.layout, measured), measured.hop_s);
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
    for (std::size_t op = 0; op < ActionTimes::kOps; ++op) {
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
      for (const auto& actions : test::traces_of(spec, configuration_of(shape, 1), step, costs))
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

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
