#include "schedules/planner/step_prediction.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>

#include "schedules/planner/inference_prediction.h"
#include "schedules/planner/memory_estimate.h"
#include "tests/schedules/planner/planned_run.h"
#include "tests/support/seed.h"

namespace troupe::schedules {

BOOST_AUTO_TEST_SUITE(step_prediction_test)

namespace {

const MachineModel& machine() {
  return *find_machine_preset("a100-80g");
}

/// 64 layers of width 8192 on 128 devices.
PlannedRun llama() {
  return {.work = {.hidden = 8192,
                   .feed_forward = 28672,
                   .heads = 64,
                   .kv_heads = 8,
                   .head_width = 128,
                   .layers = 64,
                   .vocabulary = 32000,
                   .gates = 2,
                   .element_bytes = 2,
                   .seq_len = 2048,
                   .microbatches = 64,
                   .tp = 8,
                   .pp = 8,
                   .dp = 2}};
}

}  // namespace

/// Equal stages have (p - 1) / (m + p - 1); the head makes the last one longer.
BOOST_AUTO_TEST_CASE(the_bubble_is_the_formulas) {
  const double bubble = llama().on(machine()).bubble_share;
  BOOST_TEST(bubble > 7.0 / 71 - 0.01);
  BOOST_TEST(bubble < 7.0 / 71 + 0.04);
  PlannedRun interleaved = llama();
  interleaved.kind = "interleaved";
  interleaved.chunks = 4;
  BOOST_TEST(interleaved.on(machine()).bubble_share < bubble);
}

/// Of experts those count that are chosen; all of them take memory, divided among replicas.
BOOST_AUTO_TEST_CASE(experts_compute_what_is_chosen_and_hold_all) {
  const Work dense = llama().work;
  Work work = dense;
  work.routed_layers = work.layers;
  work.experts = 8;
  work.chosen_experts = 2;
  work.expert_width = dense.feed_forward / 2;
  const double router = 8192.0 * 8, layers = 64;
  BOOST_TEST(model_flop_per_token(work) == model_flop_per_token(dense) + 3 * 2 * router * layers,
             boost::test_tools::tolerance(1e-12));
  const double of_experts = 3.0 * 8192 * 28672;  // twice that of half the width
  BOOST_TEST(work.parameters_of_layer() == dense.parameters_of_layer() + 3 * of_experts + router,
             boost::test_tools::tolerance(1e-12));
  work.ep = 2;
  BOOST_TEST(work.parameters_of_layer() == dense.parameters_of_layer() + of_experts + router,
             boost::test_tools::tolerance(1e-12));
  // Experts that are whole on each of 8 shards.
  work.whole_experts = true;
  BOOST_TEST(work.parameters_of_layer() > dense.parameters_of_layer() + 8 * of_experts);
  work.whole_experts = false;
  PlannedRun run = llama();
  const double without = run.on(machine()).step_s;
  run.work = work;
  BOOST_TEST(run.on(machine()).step_s > without);
}

/// Moments that all replicas divide are as many, whoever computes with which experts.
BOOST_AUTO_TEST_CASE(replicas_that_share_experts_out_keep_slices_of_the_same_size) {
  PlannedRun run = llama();
  Work& work = run.work;
  work.routed_layers = work.layers;
  work.experts = 8;
  work.chosen_experts = 2;
  work.expert_width = work.feed_forward / 2;
  work.dp = 4;
  work.division = Work::Division::optim_grads;
  work.micro = work.seq_len = 1;  // next to no activations
  const auto bytes = [&] { return estimate_memory(work, run.layers(), 1, Held::one_f_one_b); };
  const double all = bytes();
  work.ep = 4;
  // Weights, gradients and packed weights of three quarters of a stage's experts.
  const double experts = 8.0 * 3 * 8192 * static_cast<double>(work.expert_width);
  const double layers = run.layers().front();
  const double gone = 0.75 * experts * layers / work.tp * (4 + 4 + work.element_bytes);
  BOOST_TEST(all - bytes() == gone, boost::test_tools::tolerance(1e-3));
}

/// Tables of equal widths are the plain mesh but for the order of additions.
BOOST_AUTO_TEST_CASE(stages_of_equal_width_take_what_the_mesh_does) {
  PlannedRun run = llama();
  const StepPrediction even = run.on(machine());
  run.work.widths.assign(8, {.tp = 8, .dp = 2});
  const StepPrediction tables = run.on(machine());
  BOOST_TEST(tables.devices == even.devices);
  BOOST_TEST(tables.step_s == even.step_s, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(tables.bubble_share == even.bubble_share, boost::test_tools::tolerance(1e-12));
}

/// A stage of as many layers as two others takes twice as long; with twice the replicas it takes as
/// long as they do, whichever stage it is. Parts are means over all ranks and add up.
BOOST_AUTO_TEST_CASE(a_wider_stage_makes_a_step_shorter) {
  for (const std::size_t wide : {0, 1, 2}) {
    PlannedRun run = llama();
    run.work.pp = 3;
    run.work.micro = 2;
    run.split.assign(3, 16);
    run.split[wide] = 32;
    const StepPrediction even = run.on(machine());
    run.work.micro /= 2;
    run.work.dp = 4;
    run.work.widths.assign(3, {.tp = 8, .dp = 2});
    run.work.widths[wide].dp = 4;
    const StepPrediction wider = run.on(machine());
    BOOST_TEST(even.devices == 48);
    BOOST_TEST(wider.devices == 64);
    BOOST_TEST(wider.step_s < 0.75 * even.step_s);
    BOOST_TEST(wider.bubble_share < even.bubble_share);
    BOOST_TEST(wider.tokens_per_s * wider.step_s == even.tokens_per_s * even.step_s,
               boost::test_tools::tolerance(1e-9));
    const double sum = wider.compute_s + wider.optimizer_s + wider.shards_s + wider.replicas_s +
                       wider.edges_s + wider.bubble_share * wider.step_s;
    BOOST_TEST(sum == wider.step_s, boost::test_tools::tolerance(1e-9));
  }
}

BOOST_AUTO_TEST_CASE(recompute_makes_a_step_longer) {
  PlannedRun run = llama();
  const double none = run.on(machine()).step_s;
  run.work.recompute = Work::Recompute::output;
  const double output = run.on(machine()).step_s;
  run.work.recompute = Work::Recompute::full;
  run.work.recomputed_layers = 4;
  const double half = run.on(machine()).step_s;
  run.work.recomputed_layers = 0;
  const double full = run.on(machine()).step_s;
  BOOST_TEST(none < output);
  BOOST_TEST(output < half);
  BOOST_TEST(half < full);
  BOOST_TEST(half == (none + full) / 2, boost::test_tools::tolerance(0.02));
}

/// A faster part of the machine never makes a step longer.
BOOST_AUTO_TEST_CASE(a_better_machine_is_not_slower) {
  const PlannedRun run = llama();
  double MachineModel::Device::*const rates[] = {&MachineModel::Device::bfloat16_tflops,
                                                 &MachineModel::Device::memory_gb_per_s};
  const double before = run.on(machine()).step_s;
  for (const auto rate : rates) {
    MachineModel better = machine();
    better.device.*rate *= 2;
    BOOST_TEST(run.on(better).step_s < before);
  }
  MachineModel better = machine();
  better.host.gb_per_s *= 2;
  BOOST_TEST(run.on(better).step_s < before);
  better = machine();
  better.network.gb_per_s *= 2;
  BOOST_TEST(run.on(better).step_s < before);
  MachineModel small = machine();
  small.host.devices = 4;
  BOOST_TEST(run.on(small).shards_s > 1.5 * run.on(machine()).shards_s);
}

BOOST_AUTO_TEST_CASE(reductions_run_beside_backwards_if_they_may) {
  PlannedRun run = llama();
  const double early = run.on(machine()).replicas_s;
  run.work.overlaps_reductions = false;
  BOOST_TEST(run.on(machine()).replicas_s > early);
  BOOST_TEST(early > 0);
  run.work.dp = 1;
  BOOST_TEST(run.on(machine()).replicas_s == 0);
}

BOOST_AUTO_TEST_CASE(a_divided_optimizer_is_faster_and_gathered_weights_are_not) {
  PlannedRun run = llama();
  const StepPrediction whole = run.on(machine());
  run.work.division = Work::Division::optim;
  BOOST_TEST(run.on(machine()).optimizer_s == whole.optimizer_s / 2,
             boost::test_tools::tolerance(0.01));
  run.work.division = Work::Division::optim_grads_params;
  run.work.reduces_every_microbatch = true;
  BOOST_TEST(run.on(machine()).replicas_s > 2 * whole.replicas_s);
}

/// A search looks no further than 6 % below an estimate: one that is too short costs it time alone,
/// one that is too long would hide a layout.
BOOST_AUTO_TEST_CASE(the_closed_form_is_at_most_a_little_too_long) {
  std::mt19937_64 random(test::fresh_seed());
  for (int i = 0; i < 30; ++i) {
    PlannedRun run = llama();
    run.work.pp = 1 << std::uniform_int_distribution(1, 4)(random);
    run.work.tp = 1 << std::uniform_int_distribution(0, 3)(random);
    run.work.microbatches = run.work.pp * std::uniform_int_distribution(1, 8)(random);
    run.work.micro = std::uniform_int_distribution(1, 4)(random);
    const int choice = std::uniform_int_distribution(0, 2)(random);
    run.kind = choice == 0 ? "1f1b" : choice == 1 ? "interleaved" : "zb-h1";
    run.chunks = choice == 1 ? 2 : 1;
    const Operations operations(machine(), 2);
    const double estimate =
        estimate_step(run.work, operations, layout_costs(run.work, operations), run.layers(),
                      {.chunks = run.chunks, .splits_backward = choice == 2});
    const double step = run.on(machine()).step_s;
    BOOST_TEST(estimate < 1.06 * step, run.kind << " on " << run.work.pp << " stages");
    BOOST_TEST(estimate > 0.85 * step, run.kind << " on " << run.work.pp << " stages");
  }
}

/// 18 bytes a parameter and the activations of eight microbatches.
BOOST_AUTO_TEST_CASE(memory_is_the_formulas) {
  PlannedRun run = llama();
  const double bytes = estimate_memory(run.work, run.layers(), 1, Held::one_f_one_b);
  const double parameters = 8 * run.work.parameters_of_layer() / 8;
  BOOST_TEST(bytes > 18 * parameters);
  run.work.division = Work::Division::optim;
  const double divided = estimate_memory(run.work, run.layers(), 1, Held::one_f_one_b);
  const double table = run.work.parameters_of_vocabulary() / 8;
  BOOST_TEST(bytes - divided == 4 * (parameters + table), boost::test_tools::tolerance(1e-9));
  BOOST_TEST(estimate_memory(run.work, run.layers(), 1, Held::all) > 2 * divided);
}

/// 2 * 80 layers * 16 sequences * 8192 tokens * one head of 128 in two bytes.
BOOST_AUTO_TEST_CASE(inference_reads_weights_and_cache_for_each_token) {
  Work work = llama().work;
  work.layers = 80;
  work.pp = work.dp = 1;
  const auto served = predict_inference(work, 16, 8192, machine());
  BOOST_TEST(served.kv_cache_bytes == std::int64_t{2} * 80 * 16 * 8192 * 128 * 2);
  const double parameters =
      (80 * work.parameters_of_layer() + 2 * work.parameters_of_vocabulary()) / 8;
  BOOST_TEST(static_cast<double>(served.weights_bytes) == 2 * parameters,
             boost::test_tools::tolerance(1e-9));
  const double light =
      16 * 2039e9 / static_cast<double>(served.weights_bytes + served.kv_cache_bytes);
  BOOST_TEST(served.decode_tokens_per_s < light);
  BOOST_TEST(served.decode_tokens_per_s > light / 5);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::schedules
