// A stage allocates what it plans, and a step allocates nothing.

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "stages/decoder/stage/transformer_stage.h"
#include "tests/support/counted_new.h"
#include "tests/support/families.h"
#include "tests/support/null_device.h"
#include "tests/support/recomputes.h"
#include "tests/support/stage_passes.h"

BOOST_AUTO_TEST_SUITE(stage_memory_test)

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr stages::ModelKind kKinds[] = {stages::ModelKind::llama, stages::ModelKind::gpt2};

stages::StageSpec small_stage(bool training, stages::ModelKind kind = stages::ModelKind::llama) {
  return {
      .model = {.kind = kind,
                .hidden_size = 36,
                .intermediate_size = 50,
                .num_hidden_layers = 6,
                .num_attention_heads = 6,
                .num_key_value_heads = kind == stages::ModelKind::gpt2 ? 6 : 2,
                .head_dim = 6,
                .vocab_size = 101,
                .max_position_embeddings = 9},
      .chunks = {{.first_layer = 0, .end_layer = 2, .embedding = true, .live = 3, .deferred = 2},
                 {.first_layer = 4, .end_layer = 6, .head = true, .live = 2, .deferred = 1}},
      .micro = 2,
      .seq_len = 7,
      .global_tokens = 42,
      .training = training};
}

/// Replicas that divide gradients, or weights, or both.
std::vector<stages::StateSharding> divided_states() {
  std::vector<stages::StateSharding> states;
  for (const auto& [gradients, weights] :
       {std::pair(true, false), std::pair(false, true), std::pair(true, true)})
    for (const bool twins : {true, false}) {
      const stages::StateSharding state{.count = 3,
                                        .index = 1,
                                        .buckets = {.size = 2000},
                                        .twins = twins,
                                        .gradients = gradients,
                                        .weights = weights};
      states.push_back(state);
      if (!weights) continue;
      for (const int prefetch : {0, 3}) {
        states.push_back(state);
        states.back().prefetch = prefetch;
      }
      states.push_back(state);
      states.back().reshards = false;
    }
  return states;
}

/// Whole and divided among shards, some of which keep capped logits, with one way to recompute
/// each.
std::vector<stages::StageSpec> specs_of_families(bool training) {
  std::vector<stages::StageSpec> specs;
  std::size_t next = 0;
  for (const char* family : kFamilies)
    for (const bool sequence_parallel : {false, true}) {
      stages::StageSpec spec = small_stage(training);
      spec.model = as_family(spec.model, family);
      spec.model.dtype = sequence_parallel ? tensor::DType::bf16 : tensor::DType::f32;
      specs.push_back(spec);
      spec.sharding = {.size = 2, .shard = 1, .sequence_parallel = sequence_parallel};
      const auto ways = ways_to_recompute();
      spec.recompute = ways[next++ % ways.size()];
      specs.push_back(spec);
      specs.back().model.loss_chunk = 3;
    }
  return specs;
}

std::vector<stages::StageSpec> many_specs() {
  std::vector<stages::StageSpec> specs;
  for (const bool training : {true, false}) {
    for (const bool tied : {true, false}) {
      for (const auto& [kind, dtype] :
           {std::pair(kKinds[0], tensor::DType::f32), std::pair(kKinds[0], tensor::DType::bf16),
            std::pair(kKinds[1], tensor::DType::f32)}) {
        stages::StageSpec spec = small_stage(training, kind);
        spec.model.tie_word_embeddings = tied;
        spec.model.dtype = dtype;
        specs.push_back(spec);
        specs.back().model.hidden_dropout = 0.1;
        specs.push_back(spec);
        specs.back().model.loss_chunk = 3;
        specs.push_back(spec);
        for (const std::size_t only : {0u, 1u}) {
          specs.push_back(spec);
          specs.back().chunks = {spec.chunks[only]};
        }
        for (const stages::StateSharding& state : divided_states()) {
          if (!training) continue;  // whose weights are never divided
          specs.push_back(spec);
          specs.back().state = state;
          specs.push_back(spec);
          specs.back().chunks = {spec.chunks[1]};
          specs.back().state = state;
        }
        spec.chunks = {{.first_layer = 2, .end_layer = 4}};
        specs.push_back(spec);
        for (const bool twins : {true, false}) {
          specs.push_back(spec);
          specs.back().state = {.count = 3, .index = 1, .buckets = {.size = 2000}, .twins = twins};
        }
        for (const stages::Recompute& recompute : ways_to_recompute()) {
          specs.push_back(small_stage(training));
          specs.back().recompute = recompute;
        }
      }
    }
    for (const stages::StageSpec& spec : specs_of_families(training)) specs.push_back(spec);
  }
  return specs;
}

std::vector<stages::Recompute> kept_and_recomputed() {
  std::vector<stages::Recompute> all = ways_to_recompute();
  all.push_back({});
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_stage_allocates_what_it_plans) {
  for (const stages::StageSpec& spec : many_specs()) {
    NullDevice device;
    const stages::StageMemory plan = plan_memory(spec, device);
    BOOST_TEST(device.allocated() == 0u);
    const auto stage = make_transformer_stage(spec, device);
    BOOST_TEST(static_cast<std::int64_t>(device.allocated()) == plan.total());
    const stages::StageMemory told = stage->allocated();
    BOOST_TEST(told.weights == plan.weights);
    BOOST_TEST(told.gradients == plan.gradients);
    BOOST_TEST(told.optimizer == plan.optimizer);
    BOOST_TEST(told.activations == plan.activations);
    BOOST_TEST(told.packed == plan.packed);
    BOOST_TEST(told.gathered == plan.gathered);
    BOOST_TEST(told.buckets == plan.buckets);
    if (spec.state.weights || spec.state.gradients) continue;
    if (spec.state.count == 1 || !spec.training)
      BOOST_TEST(plan.optimizer == (spec.training ? 2 * plan.weights : 0));
    else
      BOOST_TEST(plan.optimizer < 2 * plan.weights);
    BOOST_TEST(plan.gradients >= (spec.training ? plan.weights : 0));
  }
}

// A frozen base costs its weights, packed and not, and what the adapter's products work in.
BOOST_AUTO_TEST_CASE(a_frozen_base_takes_its_weights_alone) {
  for (const bool tied : {true, false})
    for (stages::StateSharding state : {stages::StateSharding{}, divided_states().front()}) {
      NullDevice device;
      stages::StageSpec spec = small_stage(true);
      spec.model.tie_word_embeddings = tied;
      const stages::StageMemory base = plan_memory(spec, device);
      spec.model.adapter = {.rank = 2, .alpha = 4, .targets = {"down_proj", "q_proj", "v_proj"}};
      spec.state = state;
      const stages::StageMemory plan = plan_memory(spec, device);
      const auto stage = make_transformer_stage(spec, device);
      BOOST_TEST(static_cast<std::int64_t>(device.allocated()) == plan.total());
      const stages::StageMemory told = stage->allocated();
      BOOST_TEST(told.weights == plan.weights);
      BOOST_TEST(told.gradients == plan.gradients);
      BOOST_TEST(told.optimizer == plan.optimizer);
      BOOST_TEST(told.activations == plan.activations);
      BOOST_TEST(told.packed == plan.packed);
      // Of four layers: A of three targets, and B, each on a boundary of 256 bytes.
      const std::int64_t rows = 36 + 12 + 36, adapter = 4 * 4 * (2 * (36 + 36 + 50) + 2 * rows);
      const std::int64_t padding = 4 * 4 * 256;
      BOOST_TEST(plan.weights <= base.weights + adapter + padding);
      BOOST_TEST(plan.optimizer <= 2 * (adapter + padding));
      BOOST_TEST(plan.gradients <= adapter + padding);
      BOOST_TEST(plan.gathered == 0);
    }
}

BOOST_AUTO_TEST_CASE(a_divided_state_takes_its_slices_and_slots) {
  NullDevice device;
  stages::StageSpec spec = small_stage(true);
  spec.model.hidden_size = 192;
  spec.model.intermediate_size = 256;
  spec.model.head_dim = 32;
  spec.model.num_hidden_layers = 40;
  spec.chunks = {{.first_layer = 0, .end_layer = 40, .embedding = true, .head = true, .live = 1}};
  const stages::StageMemory whole = plan_memory(spec, device);
  const auto is_part = [](std::int64_t bytes, std::int64_t of, double share) {
    return static_cast<double>(bytes) > share * static_cast<double>(of) &&
           static_cast<double>(bytes) < 2 * share * static_cast<double>(of);
  };
  spec.state = {.count = 8, .index = 3, .gradients = true, .weights = true};
  const stages::StageMemory divided = plan_memory(spec, device);
  BOOST_TEST(is_part(divided.weights, whole.weights, 1.0 / 10));
  BOOST_TEST(is_part(divided.gradients, whole.gradients, 1.0 / 10));
  BOOST_TEST(is_part(divided.optimizer, whole.optimizer, 1.0 / 10));
  // Two layers for forwards and two for backwards, of forty; gradients of three.
  BOOST_TEST(is_part(divided.gathered, whole.weights, 4.0 / 50));
  BOOST_TEST(is_part(divided.buckets, whole.weights, 3.0 / 50));
  BOOST_TEST(is_part(divided.packed, whole.packed, 4.0 / 50));
  BOOST_TEST(divided.activations == whole.activations);
  spec.state.reshards = false;
  const stages::StageMemory kept = plan_memory(spec, device);
  BOOST_TEST(kept.gathered == whole.weights);
  BOOST_TEST(kept.packed == whole.packed);
}

BOOST_AUTO_TEST_CASE(memory_grows_by_equal_slots) {
  NullDevice device;
  const auto activations = [&](int live, int deferred) {
    stages::StageSpec spec = small_stage(true);
    spec.chunks[1].live = live;
    spec.chunks[1].deferred = deferred;
    return plan_memory(spec, device).activations;
  };
  const std::int64_t slot = activations(2, 0) - activations(1, 0);
  const std::int64_t deferred = activations(1, 1) - activations(1, 0);
  BOOST_TEST(activations(5, 3) == activations(1, 0) + 4 * slot + 3 * deferred);
  // Each of two layers holds x, two norms, attention and mid, [T, C] each; q, k, v; and three times
  // the width. The head holds its logits. Beyond that there are only a few statistics.
  const std::int64_t tokens = 14;
  const std::int64_t layer = 5 * 36 + 60 + 3 * 50;
  const std::int64_t floats = tokens * (2 * layer - 36 + 2 * 36 + 101);
  BOOST_TEST(slot >= 4 * floats);
  BOOST_TEST(slot <= 4 * floats + 4 * tokens * 2 * 10 + 30 * 256);
}

BOOST_AUTO_TEST_CASE(what_products_work_in_is_planned) {
  NullDevice device;
  const auto activations = [&](std::int64_t vocabulary) {
    stages::StageSpec spec = small_stage(false);
    spec.model.vocab_size = vocabulary;
    return plan_memory(spec, device).activations;
  };
  // The head's product needs the most. Twice the vocabulary means twice the logits and twice the
  // scratch memory of their product, [T, V] float32 each.
  const std::int64_t tokens = 14;
  BOOST_TEST(activations(256) - activations(128) == 2 * tokens * 128 * 4);
}

namespace {

/// Checks that nothing of a step allocates.
void check_step(stages::ModelKind kind, const stages::Recompute& recompute,
                std::string_view family = {}) {
  NullDevice device;
  stages::StageSpec spec = small_stage(true, kind);
  spec.model = as_family(spec.model, family);
  spec.model.hidden_dropout = spec.model.attention_dropout = 0.1;
  spec.recompute = recompute;
  const auto stage = make_transformer_stage(spec, device);
  const auto memory = device.allocate(1 << 16, tensor::MemoryKind::host);
  const tensor::Tensor edge = memory.view(stage->edge_dtype(), stage->edge_shape());
  const auto loss_memory = device.allocate(sizeof(double), tensor::MemoryKind::host);
  const tensor::Tensor loss = loss_memory.view(tensor::DType::f64, {1});
  const std::vector<std::int32_t> tokens(14, 1);
  std::vector<double> norms(stage->parameters().size());
  const std::size_t device_bytes = device.allocated();
  const long before = allocations;
  stage->begin_step();
  run_forward(*stage, {.chunk = 0, .slot = 0, .output = edge, .ids = tokens});
  run_forward(*stage, {.chunk = 1, .slot = 1, .input = edge, .targets = tokens, .loss = loss});
  run_backward(*stage, {.chunk = 1, .slot = 1, .input_gradient = edge});
  run_backward(*stage, {.chunk = 0, .slot = 0, .output_gradient = edge});
  run_forward(*stage, {.chunk = 0, .slot = 2, .output = edge, .ids = tokens});
  run_forward(*stage, {.chunk = 1, .slot = 0, .input = edge, .targets = tokens, .loss = loss});
  const auto input = stages::Pass::input_gradient, weight = stages::Pass::weight_gradient;
  run_backward(*stage, {.pass = input, .chunk = 1, .slot = 0, .input_gradient = edge});
  run_backward(*stage,
               {.pass = input, .chunk = 0, .slot = 2, .deferred = 1, .output_gradient = edge});
  run_backward(*stage, {.pass = weight, .chunk = 1, .slot = 0});
  run_backward(*stage, {.pass = weight, .chunk = 0, .slot = 2, .deferred = 1});
  end_backward(*stage);
  stage->squared_norms(norms);
  stage->apply({});
  stage->evaluate(0, {}, edge, tokens, {});
  stage->evaluate(1, edge, {}, {}, tokens);
  BOOST_TEST(allocations == before);
  BOOST_TEST(device.allocated() == device_bytes);
}

}  // namespace

BOOST_DATA_TEST_CASE(a_step_allocates_nothing, boost::unit_test::data::make(kept_and_recomputed()),
                     recompute) {
  for (const stages::ModelKind kind : kKinds) check_step(kind, recompute);
  for (const char* family : {"gemma3_text", "granite", "olmo2"})
    check_step(stages::ModelKind::llama, recompute, family);
}

BOOST_AUTO_TEST_SUITE_END()
